// Panel "Draft ladder": the better a draft agrees, the more it costs.
function mountMeasure(element, given, call) {
  const {usual} = given, verdict = verdictBox();
  const speeds = figureCard(given.plotly, label('ladder_speeds'), ['measured'], label('ladder_speeds_how'));
  const map = figureCard(given.plotly, label('ladder_map'), ['measured', 'modelled'], label('ladder_map_how'));
  const table = part(), note = make('p', {class: 'pv-fine ms-source'}), missing = part();
  const pair = selectField('pair', label('ms_pair'), given.pairs);
  const numbers = ['num_prompts', 'max_new_tokens'].map((name) => inputField(name, label(`ladder_${name}`), usual[name], {min: 1, step: 1}));
  const recorded = selectField('recorded', label('ladder_recorded'), given.recorded, openRecorded);
  let report = null;
  const save = saveButton(label('ms_save'), () => `ladder-${report.pair}.json`, () => report);
  const results = part(note, verdict.node, make('div', {class: 'pv-grid'}, speeds.node, map.node), make('div', {class: 'pv-row'}, save), foldNode(label('ladder_table'), table, missing));
  const values = () => ({pair: pair.select.value, ...Object.fromEntries(numbers.map(({input}) => [input.dataset.field, input.value]))});
  const work = working(element, label('ladder_run'), values, (message) => { if (message.view) show(message.view); });

  async function openRecorded() {
    const reply = await call('recorded', {name: recorded.select.value}).catch(() => ({error: label('no_answer')}));
    work.status.say(reply.error || '', reply.error ? 'bad' : 'info');
    if (!reply.error) show(reply);
  }
  function show(view) {
    report = view.report;
    results.hidden = false;
    note.textContent = view.note;
    verdict.say(...view.sentences);
    speeds.show(view.speeds);
    map.show(view.map);
    table.replaceChildren(...(view.count ? [tableNode(view.table)] : []));
    missing.replaceChildren(...view.missing.map(fine));
    element.dataset.rungs = String(view.count);
  }
  element.append(make('section', {class: 'pv-card'}, make('div', {class: 'pv-fields'}, pair.node, numbers.map((each) => each.node)), work.row, work.bar, fine(given.limit)),
    ...(given.recorded.length ? [make('div', {class: 'pv-fields'}, recorded.node)] : []), results);
  results.hidden = true;
  if (given.view) show(given.view);
}
