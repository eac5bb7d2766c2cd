// A command from a blog: each option of speculation with what the engine does with it.
function lintCard(options, call) {
  const text = areaField('command', label('dp_lint_text'), 5, {maxlength: options.limits.lint + 1, placeholder: 'vllm serve …'});
  const engine = selectField('lint-engine', label('dp_lint_engine'), [['', label('dp_detect')], ...options.engines.map((each) => [each.name, each.title])]);
  const status = statusLine(), summary = make('div', {class: 'pv-verdict', role: 'status', 'aria-live': 'polite'}), list = make('ul', {class: 'dp-findings'}), rest = make('p', {class: 'pv-fine'});
  const check = actionButton(label('dp_check'), ask);
  async function ask() {
    check.disabled = true;
    const reply = await call('lint', {text: text.area.value, engine: engine.select.value}).catch(() => ({error: label('no_answer')}));
    check.disabled = false;
    status.say(reply.error || '', reply.error ? 'bad' : 'info');
    summary.replaceChildren(...(reply.error ? [] : [sentenceNode(reply.summary)]));
    list.replaceChildren(...(reply.findings || []).map((one) => make('li', {class: `dp-finding ${one.state}`},
      make('span', {class: 'dp-state'}, one.mark), make('code', {}, one.subject), make('span', {}, one.text))));
    rest.textContent = reply.unchecked || '';
    node.dataset.errors = reply.error ? '' : String(reply.errors);
  }
  const node = foldNode(label('dp_lint'), make('p', {class: 'pv-fine'}, label('dp_lint_about')), text.node,
    make('div', {class: 'pv-row dp-row'}, engine.node, check, status.node), summary, list, rest);
  node.setAttribute('data-lint', '');
  return node;
}
