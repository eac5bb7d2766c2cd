// Fields of a method's parameters, text areas, copying and the switch for engineers.
function areaField(name, text, rows, attributes = {}) {
  const area = make('textarea', {class: 'op-text dp-area', 'data-field': name, rows, spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', ...attributes});
  return {node: make('label', {class: 'op-label'}, text, area), area};
}

// One parameter: {node, value()}; value() is undefined where the field holds no number.
function paramField(param, changed) {
  const title = param.symbol ? `${param.name} (${param.symbol})` : param.name;
  if (param.kind === 'choice' || param.kind === 'bool') {
    const options = param.kind === 'bool' ? [['false', 'false'], ['true', 'true']] : param.options.map((each) => [each, each]);
    const field = selectField(param.name, title, options, changed);
    field.select.value = String(param.default);
    field.node.title = param.help;
    return {node: field.node, value: () => (param.kind === 'bool' ? field.select.value === 'true' : field.select.value)};
  }
  const field = inputField(param.name, title, param.default ?? '', {min: param.low, max: param.high, step: param.step, placeholder: param.kind === 'optional_float' ? label('dp_same') : ''});
  field.input.addEventListener('input', changed);
  field.node.title = param.help;
  return {
    node: field.node,
    value() {
      if (field.input.value === '') return param.kind === 'optional_float' ? null : undefined;
      return field.input.valueAsNumber;
    },
  };
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const box = make('textarea', {class: 'dp-away'});
    box.value = text;
    document.body.append(box);
    box.select();
    try { document.execCommand('copy'); } finally { box.remove(); }
  }
}

function copyButton(text) {
  const button = actionButton(label('dp_copy'), async () => {
    await copyText(text);
    button.textContent = label('dp_copied');
    setTimeout(() => { button.textContent = label('dp_copy'); }, 1500);
  }, true);
  button.setAttribute('data-copy', '');
  return button;
}

const KEY = 'speclab-engineer';
function engineerSwitch(changed) {
  const box = make('input', {type: 'checkbox', role: 'switch', 'data-engineer': ''});
  try { box.checked = localStorage.getItem(KEY) === '1'; } catch { /* private mode */ }
  const set = (on) => {
    box.checked = on;
    try { localStorage.setItem(KEY, on ? '1' : '0'); } catch { /* private mode */ }
    changed(on);
  };
  box.addEventListener('change', () => set(box.checked));
  return {node: make('label', {class: 'dp-switch', title: label('dp_switch_hint')}, box, make('span', {class: 'dp-track'}), label('dp_switch')), box, set};
}
