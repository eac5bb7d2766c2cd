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

// Options are [value, title] or [value, title, group]; those of a group stand together.
function optionNodes(options) {
  const groups = new Map(), nodes = [];
  for (const [value, title, group] of options) {
    const option = make('option', {value}, title);
    if (!group) { nodes.push(option); continue; }
    if (!groups.has(group)) {
      groups.set(group, make('optgroup', {label: group}));
      nodes.push(groups.get(group));
    }
    groups.get(group).append(option);
  }
  return nodes;
}

// Nodes under the headings of their groups: [node, group] in any order.
function grouped(nodes, kind) {
  const groups = new Map();
  for (const [node, group] of nodes) {
    if (!groups.has(group)) groups.set(group, make('div', {class: kind, role: 'group', 'aria-label': group}, make('h5', {}, group)));
    groups.get(group).append(node);
  }
  return [...groups.values()];
}

function selectField(name, text, options, changed) {
  const select = make('select', {class: 'op-select', 'data-field': name}, optionNodes(options));
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
