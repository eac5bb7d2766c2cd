// Panel "Why slower?": a run of the tab Watch, or a trace or bench report that is pasted or opened.
function mountMeasure(element, given, call) {
  const status = statusLine(), verdict = verdictBox(), table = part(), advice = part();
  const paste = make('textarea', {class: 'ms-paste', 'data-field': 'text', spellcheck: 'false', placeholder: label('why_paste_hint'), 'aria-label': label('why_paste')});
  const file = make('input', {type: 'file', accept: '.json,application/json', 'aria-label': label('why_file')});
  const pair = selectField('pair', label('ms_pair'), given.pairs);
  const method = selectField('method', label('why_method'), given.methods);
  const step = inputField('step_ms', label('why_step'), '', {min: 0, step: 'any', placeholder: label('why_step_hint')});
  const recorded = selectField('recorded', label('why_recorded'), [['', label('why_choose')], ...given.recorded], () => { if (recorded.select.value) send({recorded: recorded.select.value}); });
  const results = part(verdict.node, table);
  results.hidden = true;

  const player = () => [...document.querySelectorAll('#player, #player *')].find((node) => node.wholeTrace);
  function takeLast() {
    const trace = player()?.wholeTrace();
    if (trace) send({text: JSON.stringify(trace)});
    else status.say(label('why_no_run'), 'bad');
  }
  function sendPasted() {
    if (!paste.value.trim()) { status.say(label('why_empty'), 'bad'); return; }
    send({text: paste.value});
  }
  async function readFile() {
    const [chosen] = file.files;
    if (!chosen) return;
    if (chosen.size > given.most) { status.say(label('why_too_large'), 'bad'); file.value = ''; return; }
    send({text: await chosen.text()});
    file.value = '';
  }
  function send(request) {
    if ((request.text?.length ?? 0) > given.most) { status.say(label('why_too_large'), 'bad'); return; }
    status.say(label('ms_reading'), 'busy');
    askOnce(call, 'why', {...request, step_ms: step.input.value}, status, show);
  }
  function show(view) {
    results.hidden = false;
    verdict.say(...view.sentences);
    table.replaceChildren(...view.tables.map(tableNode), ...view.notes.map(fine));
    element.dataset.factor = view.factor;
  }
  file.addEventListener('change', readFile);
  const work = working(element, label('why_recommend'), () => ({pair: pair.select.value, method: method.select.value}), (message) => {
    if (message.sentences) advice.replaceChildren(...message.sentences.map((one) => sentenceNode(one)), ...(message.tables || []).map(tableNode));
  });
  element.append(
    make('section', {class: 'pv-card'}, make('div', {class: 'pv-row'}, actionButton(label('why_last'), takeLast), make('label', {class: 'op-btn quiet ms-file'}, label('why_file'), file)),
      make('div', {class: 'pv-fields'}, recorded.node, step.node), foldNode(label('why_paste'), paste, make('div', {class: 'pv-row'}, actionButton(label('why_read'), sendPasted))), status.node, fine(given.limit)),
    results,
    make('section', {class: 'pv-card'}, make('h4', {}, label('why_advice'), ' ', badges('measured', 'modelled')), fine(given.advice_how), make('div', {class: 'pv-fields'}, pair.node, method.node), work.row, work.bar, advice));
}
