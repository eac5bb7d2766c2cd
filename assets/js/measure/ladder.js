// Panel "Draft ladder": the better a draft agrees, the more it costs.
function mountMeasure(element, given, call) {
  const {usual} = given;
  const speeds = figureCard(given.plotly, label('ladder_speeds'), ['measured'], label('ladder_speeds_how'));
  const map = figureCard(given.plotly, label('ladder_map'), ['measured', 'modelled'], label('ladder_map_how'));
  const table = part(), missing = part();
  const pair = selectField('pair', label('ms_pair'), given.pairs);
  const numbers = ['num_prompts', 'max_new_tokens'].map((name) => inputField(name, label(`ladder_${name}`), usual[name], {min: 1, step: 1}));
  const recorded = selectField('recorded', label('ladder_recorded'), given.recorded, () => askOnce(call, 'recorded', {name: recorded.select.value}, work.status, show));
  const results = reportResults((report) => `ladder-${report.pair}.json`, (source, verdict, save) => [
    source, verdict, make('div', {class: 'pv-grid'}, speeds.node, map.node), save, foldNode(label('ladder_table'), table, missing)]);
  const values = () => ({pair: pair.select.value, ...Object.fromEntries(numbers.map(({input}) => [input.dataset.field, input.value]))});
  const work = working(element, label('ladder_run'), values, (message) => { if (message.view) show(message.view); });

  function show(view) {
    results.open(view);
    speeds.show(view.speeds);
    map.show(view.map);
    table.replaceChildren(...(view.count ? [tableNode(view.table)] : []));
    missing.replaceChildren(...view.missing.map(fine));
    element.dataset.rungs = String(view.count);
  }
  element.append(make('section', {class: 'pv-card'}, make('div', {class: 'pv-fields'}, pair.node, numbers.map((each) => each.node)), work.row, work.bar, fine(given.limit)),
    ...(given.recorded.length ? [make('div', {class: 'pv-fields'}, recorded.node)] : []), results.node);
  if (given.view) show(given.view);
}
