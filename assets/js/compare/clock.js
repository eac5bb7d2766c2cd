// The time of a race: plays, pauses, jumps. Lanes only read it.
const SPEEDS = [[1, '1×'], [4, '1/4×'], [16, '1/16×']];

function raceClock(changed) {
  let now = 0, end = 0, slow = 4, playing = false, before = 0, stops = [];
  const state = () => ({now, end, slow, playing});
  function set(seconds) { now = Math.max(0, Math.min(end, seconds)); changed(state()); }
  function frame(stamp) {
    if (!playing) return;
    if (!element.isConnected) { playing = false; return; }
    const passed = before ? Math.min(stamp - before, 250) / 1000 : 0;
    before = stamp;
    now = Math.min(end, now + passed / slow);
    if (now >= end) playing = false;
    changed(state());
    if (playing) requestAnimationFrame(frame);
  }
  function play(on) {
    if (on === playing) return;
    playing = on && end > 0;
    if (playing) {
      if (now >= end) now = 0;
      before = 0;
      requestAnimationFrame(frame);
    }
    changed(state());
  }
  return {
    state, set, play,
    load(seconds, moments) { playing = false; end = seconds; stops = moments; set(end); },
    slower(factor) { slow = factor; changed(state()); },
    // The next or previous moment at which something arrives, in any lane.
    step(direction) {
      play(false);
      const next = direction > 0 ? stops.find((at) => at > now + 1e-9) : stops.findLast((at) => at < now - 1e-9);
      set(next ?? (direction > 0 ? end : 0));
    },
  };
}

const seconds = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));

function transport(clock) {
  const button = (name, text, action) => {
    const node = iconButton(name, text, name);
    node.addEventListener('click', action);
    return node;
  };
  const toggle = () => clock.play(!clock.state().playing);
  const first = button('first', label('cp_restart'), () => { clock.play(false); clock.set(0); });
  const play = button('play', label('cp_play'), toggle);
  const last = button('last', label('cp_to_end'), () => { clock.play(false); clock.set(Infinity); });
  const previous = button('prev', label('cp_previous'), () => clock.step(-1));
  const next = button('next', label('cp_next'), () => clock.step(1));
  const scrub = make('input', {type: 'range', class: 'cp-scrub', min: 0, max: 1000, step: 1, 'aria-label': label('cp_time')});
  scrub.addEventListener('input', () => { clock.play(false); clock.set(clock.state().end * scrub.value / 1000); });
  const readout = make('output', {class: 'cp-readout'});
  const speeds = SPEEDS.map(([factor, text]) => {
    const node = make('button', {type: 'button', class: 'cp-speed', 'data-slow': factor}, text);
    node.addEventListener('click', () => clock.slower(factor));
    return node;
  });
  const node = make('div', {class: 'cp-bar', role: 'group', 'aria-label': label('cp_replay')},
    make('div', {class: 'cp-buttons'}, first, previous, play, next, last), scrub, readout,
    make('div', {class: 'cp-speeds', role: 'group', 'aria-label': label('cp_speed')}, speeds));
  function keys(event) {
    if (event.target.closest('select, textarea, summary, input:not(.cp-scrub)')) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = {ArrowRight: () => clock.step(1), ArrowLeft: () => clock.step(-1), Home: () => { clock.play(false); clock.set(0); }, End: () => { clock.play(false); clock.set(Infinity); }};
    if (event.key === ' ' && !event.target.closest('button')) acts[' '] = toggle;
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
  return {
    node, keys,
    paint({now, end, slow, playing}) {
      const text = label('cp_at', {now: seconds(now), end: seconds(end)});
      scrub.value = end ? Math.round(1000 * now / end) : 0;
      scrub.setAttribute('aria-valuetext', text);
      readout.textContent = text;
      const name = playing ? 'pause' : 'play';
      if (play.dataset.shown !== name) {
        play.dataset.shown = name;
        play.replaceChildren(icon(name));
        fill(play, {'aria-label': label(`cp_${name}`), title: label(`cp_${name}`)}, []);
      }
      for (const each of speeds) each.setAttribute('aria-pressed', String(+each.dataset.slow === slow));
    },
  };
}
