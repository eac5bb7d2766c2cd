// Panel "At best": alpha, c and gamma by sliders, what the closed forms make of them.
const HERE = 'here';

// One number under its name.
function numberTile(key) {
  const value = make('dd', {'data-number': key}, '–');
  return {node: make('div', {}, make('dt', {}, label(`best_${key}`)), value), set(text, tone = '') { value.textContent = text; value.className = tone; }};
}

function mountMeasure(element, given, call) {
  const {limits, first, starts, costs, pairs} = given, tiles = Object.fromEntries(['tokens', 'speedup', 'best', 'best_speedup', 'break', 'perfect'].map((key) => [key, numberTile(key)]));
  const status = statusLine(), verdict = verdictBox(), chart = figureCard(given.plotly, label('best_chart'), ['modelled'], label('best_how'));
  const table = part(), note = fine('');
  const start = selectField('start', label('best_start'), [['', label('best_own')], ...starts.map((each) => [each.name, each.title])], startChanged);
  const cost = selectField('costs', label('best_costs'), costs, () => reload(0));
  const alpha = slider('alpha', label('best_alpha'), {low: 0, high: 1, step: 0.01, value: first.alpha}, moved, (x) => x.toFixed(2));
  const c = slider('c', label('best_c'), {low: 0, high: limits.c, step: 0.01, value: first.c}, moved, (x) => x.toFixed(2));
  const gamma = slider('gamma', label('best_gamma'), {low: 0, high: limits.gamma, step: 1, value: first.gamma}, moved);
  const pair = selectField('pair', label('ms_pair'), pairs);
  let here = null;
  const request = () => ({alpha: alpha.value(), c: c.value(), gamma: gamma.value(), costs: cost.select.value, start: start.select.value, here});
  const ask = asking(call, 'best', status);
  function reload(wait = 0) { ask(request, show, wait); }
  function moved() { reload(WAIT_MS); }
  function startChanged() {
    const chosen = starts.find((each) => each.name === start.select.value);
    if (chosen) {
      alpha.set(chosen.alpha);
      c.set(chosen.c);
      gamma.set(chosen.gamma);
      cost.select.value = chosen.costs;
    }
    reload(0);
  }

  function show(reply) {
    for (const [key, [text, tone]] of Object.entries(reply.numbers)) tiles[key].set(text, tone);
    verdict.say(...reply.sentences);
    gamma.input.max = reply.most;
    gamma.set(reply.gamma);
    chart.show(reply.figure);
    table.replaceChildren(tableNode(reply.table));
    note.textContent = reply.note;
    Object.assign(element.dataset, {speedup: reply.values.speedup, best: reply.values.best});
  }
  // what was measured becomes a choice of its own, in this browser only
  function showMeasured(message) {
    if (!message.costs) return;
    here = message.costs;
    if (![...cost.select.options].some((option) => option.value === HERE)) cost.select.append(make('option', {value: HERE}, label('best_here')));
    cost.select.value = HERE;
    if (message.cost_ratio !== null) c.set(message.cost_ratio);
    reload(0);
  }
  const work = working(element, label('best_measure'), () => ({pair: pair.select.value}), showMeasured);
  element.append(
    make('section', {class: 'pv-card'}, make('div', {class: 'pv-fields'}, start.node, cost.node), make('div', {class: 'ms-controls'}, alpha.node, c.node, gamma.node),
      make('dl', {class: 'ms-numbers'}, Object.values(tiles).map((tile) => tile.node)), status.node, verdict.node, note),
    chart.node,
    foldNode(label('best_measure'), make('div', {class: 'pv-fields'}, pair.node), work.row, work.bar, fine(given.limit)),
    foldNode(label('best_table'), table),
    foldNode(label('best_published'), badges('published'), make('div', {class: 'pv-tables'}, given.published.map(tableNode))),
    foldNode(label('best_formulas'), ...['tokens', 'speedup', 'source'].map((key) => make('p', {}, label(`best_formula_${key}`)))));
  show(given.view);
}
