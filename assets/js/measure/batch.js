// Panel "Batch and hardware": the roofline by sliders, requests that arrive, passes measured here.
// Requests that arrive: simulated when asked, with the device and the draft of the sliders.
function arrivalsFold(given, call, request) {
  const status = statusLine(), verdict = verdictBox(), table = part(), note = fine(''), more = part();
  const rates = selectField('rates', label('batch_rates'), given.rates.map((each) => [each, each]));
  const tokens = inputField('new_tokens', label('batch_new_tokens'), given.new_tokens, {min: 1, step: 1});
  const run = actionButton(label('batch_arrivals_run'), simulate), plot = plotBox(given.plotly, label('batch_arrivals_chart'));
  rates.select.value = given.usual_rate;
  async function simulate() {
    run.disabled = true;
    status.say(label('ms_starting'), 'busy');
    await askOnce(call, 'arrivals', {...request(), rates: rates.select.value, new_tokens: tokens.input.value}, status, show);
    run.disabled = false;
  }
  function show(reply) {
    verdict.say(...reply.sentences);
    plot.show(reply.figure);
    note.textContent = reply.note;
    table.replaceChildren(tableNode(reply.table));
    more.replaceChildren(foldNode(label('batch_assumptions'), make('ul', {}, reply.assumptions.map((text) => make('li', {}, text)))));
  }
  return foldNode(label('batch_arrivals'), badges('modelled'), fine(label('batch_arrivals_how')), make('div', {class: 'pv-fields'}, rates.node, tokens.node, run), status.node, verdict.node, plot.node, note, table, more);
}

// A published curve beside the model in the same setting.
function publishedFold(given, call) {
  const status = statusLine(), verdict = verdictBox(), plot = plotBox(given.plotly, label('batch_published')), source = part();
  const which = selectField('published', label('batch_published_which'), given.published, load);
  function load() { askOnce(call, 'published', {name: which.select.value}, status, show); }
  function show(reply) {
    verdict.say(...reply.sentences);
    plot.show(reply.figure);
    source.replaceChildren(make('p', {class: 'pv-fine'}, linked(reply.source)));
  }
  const fold = foldNode(label('batch_published'), badges('published', 'modelled'), fine(label('batch_published_how')), make('div', {class: 'pv-fields'}, which.node), status.node, verdict.node, plot.node, source);
  let seen = false;
  fold.addEventListener('toggle', () => { if (fold.open && !seen) { seen = true; load(); } });
  return fold;
}

// Passes on several texts, timed here; the alpha of the slider says what they leave.
function passesFold(element, given, call, alpha) {
  const costs = figureCard(given.plotly, label('batch_costs_chart'), ['measured']), speeds = figureCard(given.plotly, label('batch_speeds_chart'), ['modelled']);
  const pair = selectField('pair', label('ms_pair'), given.pairs);
  const recorded = selectField('passes', label('batch_passes_recorded'), given.passes_recorded,
    () => askOnce(call, 'passes', {name: recorded.select.value, alpha: alpha.value()}, work.status, show));
  let pending = given.passes_view;
  const results = reportResults((report) => `batch-${report.pair}.json`, (source, verdict, save) => [
    source, verdict, make('div', {class: 'pv-grid'}, costs.node, speeds.node), save]);
  const work = working(element, label('batch_passes_run'), () => ({pair: pair.select.value, alpha: alpha.value()}), (message) => { if (message.view) show(message.view); });
  function show(view) {
    results.open(view);
    costs.show(view.costs);
    speeds.show(view.speeds);
    element.dataset.batches = String(view.count);
  }
  const fold = foldNode(label('batch_passes'), fine(label('batch_passes_how')), make('div', {class: 'pv-fields'}, pair.node, given.passes_recorded.length ? recorded.node : null), work.row, work.bar, fine(given.passes_limit), results.node);
  fold.addEventListener('toggle', () => { if (fold.open && pending) { show(pending); pending = null; } });
  return fold;
}

function mountMeasure(element, given, call) {
  const {first} = given, status = statusLine(), verdict = verdictBox(), table = part(), sources = part(), assumptions = part();
  const chart = figureCard(given.plotly, label('batch_chart'), ['modelled'], label('batch_how'));
  const selects = Object.fromEntries([['hardware', given.hardware], ['target', given.targets], ['draft', given.drafts], ['context', given.contexts], ['bits', given.bits]].map(([name, list]) => [name, selectField(name, label(`batch_${name}`), list, () => reload(0))]));
  const alpha = slider('alpha', label('batch_alpha'), {low: 0, high: 1, step: 0.01, value: first.alpha}, () => reload(), (x) => x.toFixed(2));
  const gamma = slider('gamma', label('batch_gamma'), {low: 0, high: given.gammas, step: 1, value: first.gamma}, () => reload());
  for (const [name, field] of Object.entries(selects)) field.select.value = first[name];
  const request = () => ({...Object.fromEntries(Object.entries(selects).map(([name, field]) => [name, field.select.value])), alpha: alpha.value(), gamma: gamma.value()});
  const ask = asking(call, 'roofline', status);
  function reload(wait = WAIT_MS) { ask(request, show, wait); }

  function show(view) {
    verdict.say(...view.sentences);
    chart.show(view.figure);
    terms.show(view.terms);
    table.replaceChildren(tableNode(view.table), fine(label('batch_table_note')));
    sources.replaceChildren(...view.sources.map((text) => make('p', {class: 'pv-fine'}, linked(text))));
    assumptions.replaceChildren(make('ul', {}, view.assumptions.map((text) => make('li', {}, text))));
    element.dataset.crossing = view.crossing ?? '';
  }
  const arrivals = arrivalsFold(given, call, request), terms = foldedFigure(given.plotly, label('batch_terms_chart'), badges('modelled'));
  element.append(make('section', {class: 'pv-card'}, make('div', {class: 'pv-fields'}, Object.values(selects).map((field) => field.node)), make('div', {class: 'ms-controls'}, alpha.node, gamma.node), status.node, verdict.node),
    chart.node, passesFold(element, given, call, alpha), arrivals, publishedFold(given, call), terms.node, foldNode(label('batch_table'), table), foldNode(label('batch_assumptions'), assumptions, sources));
  show(given.view);
}
