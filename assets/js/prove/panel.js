// What the panels share: messages from Python, status line, figures that load Plotly when needed.
function statusLine() {
  const node = make('p', {class: 'pv-status', role: 'status', 'aria-live': 'polite'});
  return {
    node,
    say(text, tone = 'info') {
      node.className = `pv-status ${tone}`;
      node.setAttribute('role', tone === 'bad' ? 'alert' : 'status');
      node.textContent = text;
    },
  };
}

function actionButton(text, action, quiet = false) {
  const button = make('button', {type: 'button', class: quiet ? 'op-btn quiet' : 'op-btn'}, text);
  button.addEventListener('click', action);
  return button;
}

function selectField(name, text, options, changed) {
  const select = make('select', {class: 'op-select', 'data-field': name}, options.map(([value, title]) => make('option', {value}, title)));
  if (changed) select.addEventListener('change', changed);
  return {node: make('label', {class: 'op-label'}, text, select), select};
}

function inputField(name, text, value, attributes = {}) {
  const input = make('input', {class: 'op-text', 'data-field': name, value, type: 'number', ...attributes});
  return {node: make('label', {class: 'op-label'}, text, input), input};
}

function groupedOptions(select, rules, wanted) {
  select.replaceChildren(...['lossless', 'lossy', 'broken'].map((kind) => {
    const own = rules.filter((rule) => rule.kind === kind);
    return own.length ? make('optgroup', {label: label(`op_kind_${kind}`)}, own.map((rule) => make('option', {value: rule.name}, rule.title))) : '';
  }).filter(Boolean));
  if (rules.some((rule) => rule.name === wanted)) select.value = wanted;
}

// Messages come as one JSON string; each is handled once. `handlers` by message name.
function listen(handlers) {
  let last = '';
  watch('value', () => {
    if (!props.value || props.value === last) return;
    last = props.value;
    const message = JSON.parse(last);
    handlers[message.op]?.(message);
  });
}
