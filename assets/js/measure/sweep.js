// Panel "Sweep": a recorded sweep to begin with, then sweeps of one's own.
function mountMeasure(element, given, call) {
  const {usual} = given, chart = figureCard(given.plotly, label('sweep_chart'), ['measured', 'modelled'], label('sweep_how'));
  const tau = foldedFigure(given.plotly, label('sweep_tau_chart'), badges('counted'));
  const table = part(), skipped = part();
  const pair = selectField('pair', label('ms_pair'), given.pairs);
  const axis = selectField('axis', label('sweep_axis'), given.axes);
  const methods = checks('methods', label('sweep_methods'), given.methods, given.chosen);
  const numbers = ['num_prompts', 'max_new_tokens'].map((name) => inputField(name, label(`sweep_${name}`), usual[name], {min: 1, step: 1}));
  const recorded = selectField('recorded', label('sweep_recorded'), given.recorded, () => askOnce(call, 'recorded', {name: recorded.select.value}, work.status, show));
  const results = reportResults((report) => `sweep-${report.axis}-${report.pair}.json`, (source, verdict, save) => [
    source, verdict, chart.node, save, tau.node, foldNode(label('sweep_table'), table, skipped)]);
  axis.select.value = usual.axis;

  const values = () => ({pair: pair.select.value, axis: axis.select.value, methods: methods.values(), ...Object.fromEntries(numbers.map(({input}) => [input.dataset.field, input.value]))});
  const work = working(element, label('sweep_run'), values, (message) => { if (message.view) show(message.view); });

  function show(view) {
    results.open(view);
    chart.show(view.figure);
    tau.show(view.tau_figure);
    table.replaceChildren(tableNode(view.table));
    skipped.replaceChildren(...view.skipped.map(fine));
    element.dataset.points = String(view.count);
    element.dataset.axis = view.axis;
  }
  element.append(make('section', {class: 'pv-card'}, make('div', {class: 'pv-fields'}, pair.node, axis.node, numbers.map((each) => each.node)), methods.node, work.row, work.bar, fine(given.limit)),
    ...(given.recorded.length ? [make('div', {class: 'pv-fields'}, recorded.node)] : []), results.node);
  if (given.view) show(given.view);
}
