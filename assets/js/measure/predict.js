// Panel "Predict": what one half of the prompts says of the other half.
function mountMeasure(element, given, call) {
  const {usual} = given, chart = figureCard(given.plotly, label('predict_chart'), ['measured', 'modelled'], label('predict_how'));
  const table = part(), skipped = part();
  const pair = selectField('pair', label('ms_pair'), given.pairs);
  const methods = checks('methods', label('sweep_methods'), given.methods, given.chosen);
  const temperature = selectField('temperature', label('predict_temperature'), [[0, label('predict_greedy')], [1, label('predict_sampled')]]);
  const numbers = ['num_prompts', 'max_new_tokens'].map((name) => inputField(name, label(`predict_${name}`), usual[name], {min: 1, step: 1}));
  const recorded = selectField('recorded', label('predict_recorded'), given.recorded, () => askOnce(call, 'recorded', {name: recorded.select.value}, work.status, show));
  const kind = selectField('kind', label('predict_kind'), ['positions', 'iid', 'formula'].map((each) => [each, label(`predict_col_${each}`)]), drawKind);
  let figures = {};
  function drawKind() { chart.show(figures[kind.select.value] ?? null); }
  const results = reportResults((report) => `prediction-${report.pair}.json`, (source, verdict, save) => [
    source, verdict, make('div', {class: 'pv-fields'}, kind.node), chart.node, save, foldNode(label('predict_table'), table, skipped)]);
  const values = () => ({pair: pair.select.value, temperature: temperature.select.value, methods: methods.values(), ...Object.fromEntries(numbers.map(({input}) => [input.dataset.field, input.value]))});
  const work = working(element, label('predict_run'), values, (message) => { if (message.view) show(message.view); });

  function show(view) {
    results.open(view);
    figures = view.figures;
    drawKind();
    table.replaceChildren(...(view.count ? [tableNode(view.table)] : []));
    skipped.replaceChildren(...view.skipped.map(fine));
    element.dataset.rows = String(view.count);
  }
  element.append(make('section', {class: 'pv-card'}, make('div', {class: 'pv-fields'}, pair.node, temperature.node, numbers.map((each) => each.node)), methods.node, work.row, work.bar, fine(given.limit)),
    ...(given.recorded.length ? [make('div', {class: 'pv-fields'}, recorded.node)] : []), results.node,
    foldNode(label('predict_about'), ...['half', 'positions', 'iid', 'formula'].map((key) => make('p', {}, label(`predict_about_${key}`)))));
  if (given.view) show(given.view);
}
