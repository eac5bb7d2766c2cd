// Lanes: each holds its whole text from the start, hidden until its time has come, so nothing moves.
const TRACK = 1000; // units of a time line
const KINDS = ['prefill', 'draft', 'target', 'rest'];

// One path per kind of work: rectangles of the time line, one after another.
function timeLine(lane, end) {
  const paths = Object.fromEntries(KINDS.map((kind) => [kind, []]));
  const scale = TRACK / (end || 1);
  let at = 0;
  function add(kind, length) {
    if (length > 0) paths[kind].push(`M${(at * scale).toFixed(2)} 0h${(length * scale).toFixed(2)}v10h-${(length * scale).toFixed(2)}z`);
    at += length;
  }
  add('prefill', lane.prefill_s);
  const marks = [];
  for (const [moment, , , , draft, target, rest] of lane.bursts) {
    add('draft', draft);
    add('target', target);
    add('rest', rest);
    at = moment;
    marks.push(`M${(moment * scale).toFixed(2)} 0v10`);
  }
  return makeSvg('svg', {class: 'cp-line', viewBox: `0 0 ${TRACK} 10`, preserveAspectRatio: 'none', 'aria-hidden': 'true'},
    KINDS.map((kind) => makeSvg('path', {class: kind, d: paths[kind].join('')})),
    makeSvg('path', {class: 'mark', d: marks.join('')}));
}

function burstNode([, accepted, own]) {
  return make('span', {class: 'cp-burst'}, accepted ? make('span', {class: 'ok'}, accepted) : null, own);
}

function figure(name, text, more = '') {
  return make('div', {class: `cp-figure ${name}`}, make('span', {class: 'cp-unit'}, label(`cp_col_${name}`)), make('b', {}, text), more);
}

function laneNode(lane, end) {
  const name = make('div', {class: 'cp-name'}, make('b', {}, lane.title), lane.variant ? make('span', {}, lane.variant) : null);
  const law = figure('law', lane.law.text);
  law.title = lane.law.why;
  law.classList.add(lane.law.same ? 'same' : 'other');
  if (lane.refusal) {
    const node = make('li', {class: 'cp-lane refused', 'data-lane': lane.label}, name, make('p', {class: 'pv-fine'}, lane.refusal));
    return {node, label: lane.label, paint() {}, moments: []};
  }
  const spans = lane.bursts.map(burstNode), moments = lane.bursts.map((burst) => burst[0]);
  let count = 0;
  const counts = [0, ...lane.bursts.map((burst) => (count += burst[3]))];
  const text = make('div', {class: 'cp-text', tabindex: 0, role: 'region', 'aria-label': lane.title}, make('p', {}, spans));
  const cover = make('div', {class: 'cp-cover'}), state = make('span', {class: 'cp-state'});
  const track = make('div', {class: 'cp-track'}, timeLine(lane, end), cover);
  const node = make('li', {class: 'cp-lane', 'data-lane': lane.label}, name,
    make('div', {class: 'cp-run'}, text, make('div', {class: 'cp-under'}, track, state)),
    figure('tau', lane.tau), figure('tpot', lane.tpot), law);
  let shown = 0, current = null;
  function reveal(until) {
    for (; shown < until; shown += 1) spans[shown].classList.add('there');
    for (; shown > until; shown -= 1) spans[shown - 1].classList.remove('there');
    current?.classList.remove('now');
    current = shown && shown < spans.length ? spans[shown - 1] : null;
    current?.classList.add('now');
  }
  function follow() {
    const last = spans[Math.max(0, shown - 1)];
    if (text.scrollHeight > text.clientHeight && last) {
      text.scrollTop = shown === spans.length ? text.scrollHeight : last.offsetTop + last.offsetHeight - text.clientHeight + 4;
    }
  }
  return {
    node, label: lane.label, moments,
    paint(now) {
      let until = shown;
      while (until < moments.length && moments[until] <= now + 1e-9) until += 1;
      while (until > 0 && moments[until - 1] > now + 1e-9) until -= 1;
      cover.style.left = `${end ? 100 * Math.min(1, now / end) : 0}%`;
      if (until === shown && node.dataset.tokens !== undefined) return;
      reveal(until);
      follow();
      const done = shown === spans.length;
      node.classList.toggle('finished', done);
      node.dataset.tokens = String(counts[shown]);
      state.textContent = done ? label('cp_finish', {n: counts[shown], s: seconds(lane.end_s)}) : label(counts[shown] === 1 ? 'cp_token_at' : 'cp_tokens_at', {n: counts[shown]});
    },
  };
}

function laneLegend() {
  return make('p', {class: 'cp-legend'},
    KINDS.map((kind) => make('span', {}, make('i', {class: `cp-key ${kind}`}), label(`cp_key_${kind}`))),
    make('span', {}, make('i', {class: 'cp-key ok'}, 'abc'), label('cp_key_accepted')),
    make('span', {}, make('i', {class: 'cp-key own'}, 'abc'), label('cp_key_own')));
}

// All lanes under one head; `paint(now)` shows what had arrived by then.
function raceLanes() {
  const list = make('ol', {class: 'cp-lanes'});
  const mark = (name) => make('span', {class: `cp-mark ${name}`}, label(`cp_mark_${name}`));
  const head = make('div', {class: 'cp-head', 'aria-hidden': 'true'}, make('span', {}, label('cp_col_method')), make('span', {}, label('cp_replay')),
    make('span', {}, label('cp_col_tau'), mark('counted')), make('span', {}, label('cp_col_tpot'), mark('measured')), make('span', {}, label('cp_col_law'), mark('law')));
  let lanes = [];
  return {
    node: make('div', {class: 'cp-board'}, head, list),
    load(race) {
      lanes = race.lanes.map((lane) => laneNode(lane, race.end_s));
      list.replaceChildren(...lanes.map((lane) => lane.node));
      return [...new Set(lanes.flatMap((lane) => lane.moments))].sort((a, b) => a - b);
    },
    paint(now) { for (const lane of lanes) lane.paint(now); },
  };
}
