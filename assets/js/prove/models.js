// Panel "Real models": many sequences of a real pair, the evidence as it comes, and the verdict.
const NUMBERS = ['num_samples', 'length', 'temperature', 'top_k', 'seed'];

// The address of a file that this server gives out; the Chinese page is one step deeper.
const served = (path) => location.origin + location.pathname.replace(/zh\/?$/, '') + 'gradio_api/file=' + path;

function modelControls(options, changed) {
  const {methods, rules} = options;
  const pair = selectField('pair', label('rm_pair'), options.pairs);
  const method = selectField('method', label('f_method'), methods.map((each) => [each.name, each.title, each.group]), methodChanged);
  const rule = selectField('rule', label('op_rule'), [], ruleChanged);
  const prompt = inputField('prompt', label('mean_prompt'), label('rm_prompt_text'), {type: 'text', maxlength: 2000});
  const numbers = NUMBERS.map((name) => inputField(name, label(`rm_${name}`), options.usual[name], {step: name === 'temperature' ? 0.1 : 1, min: 0}));
  const about = make('div', {class: 'op-about'});
  const rulesOf = (name) => rules.filter((each) => methods.find((one) => one.name === name).rules.includes(each.name));
  function methodChanged() { groupedOptions(rule.select, rulesOf(method.select.value), rule.select.value || 'token'); ruleChanged(); }
  function ruleChanged() { about.replaceChildren(...ruleFacts(rules.find((each) => each.name === rule.select.value))); changed(); }
  method.select.value = options.usual.method;
  methodChanged();
  const node = make('div', {class: 'pv-controls'},
    make('div', {class: 'pv-fields'}, pair.node, method.node, rule.node), about, prompt.node,
    make('div', {class: 'pv-fields narrow'}, numbers.map((each) => each.node)));
  const values = () => ({pair: pair.select.value, method: method.select.value, rule: rule.select.value, prompt: prompt.input.value,
    ...Object.fromEntries(NUMBERS.map((name, i) => [name, numbers[i].input.value]))});
  return {node, values};
}

function mountModels(element, options) {
  const status = statusLine(), verdict = verdictBox(), bar = make('progress', {class: 'pv-progress', max: 1, hidden: true, 'aria-label': label('rm_progress')});
  const curve = plotBox(served(options.plotly), label('rm_curve')), qq = plotBox(served(options.plotly), label('rm_qq'));
  const curveCard = make('section', {class: 'pv-card', hidden: true}, make('h4', {}, label('rm_curve')), make('p', {class: 'pv-fine'}, label('rm_curve_how')), curve.node);
  const results = make('div', {class: 'pv-results'}), facts = make('p', {class: 'pv-fine'});
  const qqBox = make('div', {class: 'pv-results', hidden: true}, make('h4', {}, label('rm_qq')), make('p', {class: 'pv-fine'}, label('rm_qq_how')), qq.node);
  const more = foldNode(label('rm_more'), results, qqBox);
  const run = actionButton(label('rm_run'), start), stop = actionButton(label('rm_stop'), () => trigger('halt', {}), true);
  const controls = modelControls(options, () => {});
  more.hidden = true;
  stop.disabled = true;
  more.addEventListener('toggle', () => { if (more.open && pendingQq) { qq.show(pendingQq); pendingQq = null; } });
  let pendingQq = null;

  function busy(on) { run.disabled = on; stop.disabled = !on; bar.hidden = !on; element.classList.toggle('is-busy', on); }
  function start() {
    busy(true);
    bar.removeAttribute('value');
    verdict.say();
    facts.textContent = '';
    more.hidden = curveCard.hidden = true;
    status.say(label('mean_started'), 'busy');
    trigger('prove', controls.values());
  }
  listen({
    status(message) { status.say(message.text, message.tone); if (message.tone !== 'busy') busy(false); },
    progress(message) {
      status.say(message.text, 'busy');
      bar.value = message.share;
      curveCard.hidden = false;
      curve.show(message.figure);
      element.dataset.samples = String(message.num_samples);
    },
    report(message) {
      busy(false);
      status.say(message.text, 'info');
      curveCard.hidden = false;
      curve.show(message.figure);
      verdict.say(...message.sentences);
      facts.textContent = message.facts;
      results.replaceChildren(...message.groups.flatMap((group) => [make('h4', {}, group.title), ...group.sentences.map((one) => sentenceNode(one))]), make('div', {class: 'pv-tables'}, message.tables.map(tableNode)));
      qqBox.hidden = !message.qq;
      more.hidden = false;
      if (message.qq && more.open) qq.show(message.qq); else pendingQq = message.qq;
      element.dataset.verdict = message.verdict;
    },
  });
  element.replaceChildren(make('section', {class: 'pv-card'}, controls.node, make('div', {class: 'pv-row'}, run, stop, status.node), bar, make('p', {class: 'pv-fine'}, options.limit)), verdict.node, facts, curveCard, more);
}
