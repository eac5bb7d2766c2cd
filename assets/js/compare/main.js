// Tab "Compare": choose, race, and look at the race again as slowly as one likes.
function mountCompare(element, options, call) {
  measureUnit(element);
  const status = statusLine(), verdict = verdictBox();
  const bar = make('progress', {class: 'pv-progress', max: 1, hidden: true, 'aria-label': label('cp_progress')});
  const badge = make('span', {class: 'cp-badge'}), facts = make('p', {class: 'pv-fine cp-facts'}), prompt = make('p', {class: 'cp-asked'});
  const lanes = raceLanes(), clock = raceClock(painted), controls = transport(clock);
  const numbers = make('div', {class: 'pv-results'}), gaps = make('div', {class: 'pv-results'});
  const run = actionButton(label('cp_race'), start), stop = actionButton(label('cp_stop'), () => trigger('halt', {}), true);
  const copy = actionButton(label('cp_copy'), copyLink, true);
  const choices = raceChoices(options, showRecorded);
  const empty = make('p', {class: 'pv-fine'}, label('cp_empty'));
  const board = make('section', {class: 'pv-card cp-card', hidden: true}, make('div', {class: 'cp-top'}, badge, prompt),
    controls.node, lanes.node, laneLegend(), make('p', {class: 'pv-fine'}, label('cp_replayed'), ' ', label('cp_keys')), facts);
  const meanings = make('dl', {class: 'cp-meanings'}, options.definitions.flatMap((each) => [make('dt', {}, each.term), make('dd', {}, each.text)]));
  const folds = [
    foldNode(label('cp_fold_numbers'), numbers),
    foldNode(label('cp_fold_gaps'), make('p', {class: 'pv-fine'}, label('cp_gaps_note')), gaps),
    foldNode(label('cp_definitions'), meanings),
  ];
  let edition = 0;
  stop.disabled = true;

  function painted(state) {
    lanes.paint(state.now);
    controls.paint(state);
    element.dataset.now = state.now.toFixed(4);
    element.dataset.playing = String(state.playing);
  }
  function busy(on) { run.disabled = on; stop.disabled = !on; bar.hidden = !on; element.classList.toggle('is-busy', on); }
  function start() {
    edition += 1;
    busy(true);
    bar.removeAttribute('value');
    status.say(label('cp_started'), 'busy');
    const values = choices.values();
    window.speclab?.pushState(linkOf(values));
    trigger('race', values);
  }
  async function copyLink() {
    await window.speclab.copyLink(linkOf(choices.values()));
    status.say(label('cp_copied'), 'info');
  }
  async function showRecorded(wanted) {
    const mine = (edition += 1);
    const reply = await call('recorded', wanted).catch(() => ({error: label('no_answer')}));
    if (mine !== edition || element.classList.contains('is-busy')) return;
    if (reply.error) { status.say(reply.error, 'bad'); return; }
    if (reply.lanes) { status.say('', 'info'); show(reply); choices.set(reply.chosen); }
  }

  function show(race) {
    empty.hidden = true;
    board.hidden = false;
    for (const fold of folds) fold.hidden = false;
    badge.textContent = race.badge;
    prompt.textContent = race.prompt;
    facts.textContent = race.facts;
    verdict.say(...race.sentences);
    clock.load(race.end_s, lanes.load(race));
    numbers.replaceChildren(tableNode(race.table), make('p', {class: 'pv-fine'}, label('cp_numbers_note')));
    gaps.replaceChildren(gapsNode(race.gaps));
    element.dataset.badge = race.badge;
  }
  listen({
    status(message) { status.say(message.text, message.tone); if (message.tone !== 'busy') busy(false); },
    progress(message) { status.say(message.text, 'busy'); bar.value = message.share; },
    race(message) {
      busy(false);
      status.say(message.status, 'info');
      show(message);
      if (!reducedMotion()) { clock.set(0); clock.play(true); }
    },
  });

  element.addEventListener('keydown', controls.keys);
  element.append(make('section', {class: 'pv-card'}, choices.node, make('div', {class: 'pv-row'}, run, stop, copy, status.node), bar), verdict.node, empty, board, ...folds);
  for (const fold of folds) fold.hidden = true;
  if (options.first) show(options.first);
  choices.set(readLink(options.given) ?? options.first?.chosen ?? options.given);
}
