// The table of engines and methods, and the configuration of one engine for one method.
const SIGNS = {yes: '●', other: '◐', no: '–'};

function supportTable(options, chosen) {
  const {methods, engines, table} = options;
  const cell = (method, engine) => {
    const state = table[method.name][engine.name];
    const text = label(`dp_${state}`);
    const button = make('button', {type: 'button', class: `dp-cell ${state}`, title: text, 'aria-label': `${method.title}, ${engine.title}: ${text}`}, SIGNS[state]);
    button.addEventListener('click', () => chosen(method.name, engine.name));
    return make('td', {}, button);
  };
  const legend = make('p', {class: 'pv-fine dp-legend'}, Object.keys(SIGNS).map((state) => make('span', {}, make('i', {class: `dp-sign ${state}`, 'aria-hidden': 'true'}, SIGNS[state]), ` ${label(`dp_${state}`)}`)));
  return make('section', {class: 'pv-card'}, make('h4', {}, label('dp_table')),
    make('div', {class: 'pv-scroll', tabindex: 0, role: 'region', 'aria-label': label('dp_table')},
      make('table', {class: 'pv-table dp-support'},
        make('thead', {}, make('tr', {}, make('th', {scope: 'col'}, label('dp_col_method')), engines.map((engine) => make('th', {scope: 'col'}, engine.title)))),
        make('tbody', {}, methods.map((method) => make('tr', {}, make('th', {scope: 'row'}, method.title), engines.map((engine) => cell(method, engine))))))),
    legend, make('p', {class: 'pv-fine'}, label('dp_table_note')));
}

function blockNode(block) {
  return make('figure', {class: 'dp-block', 'data-kind': block.kind},
    make('figcaption', {}, make('span', {}, block.title), copyButton(block.text)),
    make('pre', {tabindex: 0}, make('code', {}, block.text)));
}

function configCard(options, call) {
  const {methods, engines} = options;
  const engine = selectField('engine', label('dp_engine'), engines.map((each) => [each.name, each.title]), ask);
  const method = selectField('method', label('dp_method'), methods.map((each) => [each.name, each.title, each.group]), methodChanged);
  const names = Object.fromEntries(['target', 'draft', 'head'].map((name) => [name, inputField(name, label(`dp_${name}`), '', {type: 'text', maxlength: 300, placeholder: label('dp_name_hint'), spellcheck: 'false'})]));
  const length = selectField('length', label('dp_length'), options.lengths, ask);
  const rule = selectField('rule', label('dp_rule'), options.rules, ask);
  const params = make('div', {class: 'pv-fields narrow dp-params'}), answer = make('div', {class: 'dp-answer', 'aria-live': 'polite'}), status = statusLine();
  let fields = {}, timer = 0, edition = 0;

  for (const {input} of Object.values(names)) input.addEventListener('input', later);
  function later() { clearTimeout(timer); timer = setTimeout(ask, 250); }
  function shape() {
    const now = methods.find((each) => each.name === method.select.value);
    fields = Object.fromEntries(now.params.map((param) => [param.name, paramField(param, later)]));
    params.replaceChildren(...Object.values(fields).map((field) => field.node));
    params.hidden = !now.params.length;
    names.draft.node.hidden = !now.draft;
    names.head.node.hidden = !now.head;
  }
  function methodChanged() { shape(); ask(); }
  function values() {
    const given = Object.entries(fields).map(([name, field]) => [name, field.value()]).filter(([, value]) => value !== undefined);
    return {method: method.select.value, engine: engine.select.value, params: Object.fromEntries(given), length: length.select.value, rule: rule.select.value,
      ...Object.fromEntries(Object.entries(names).map(([name, field]) => [name, field.node.hidden ? '' : field.input.value]))};
  }
  async function ask() {
    clearTimeout(timer);
    const mine = (edition += 1);
    const reply = await call('config', values()).catch(() => ({error: label('no_answer')}));
    if (mine !== edition) return;
    status.say(reply.error || '', reply.error ? 'bad' : 'info');
    answer.classList.toggle('stale', Boolean(reply.error));
    if (!reply.error) show(reply);
  }
  function show(reply) {
    const parts = [make('p', {class: 'dp-badge'}, make('b', {}, reply.badge), reply.refusal ? null : ` · ${label('dp_not_run')}`)];
    if (reply.refusal) parts.push(make('div', {class: 'dp-refusal'}, make('p', {class: 'pv-say bad'}, make('b', {}, label('dp_refusal')), ' ', linked(reply.refusal))));
    else {
      parts.push(make('div', {class: 'dp-blocks'}, reply.blocks.map(blockNode)), sentenceNode(reply.verified));
      if (reply.notes.length) parts.push(make('div', {}, make('h4', {}, label('dp_notes')), make('ul', {class: 'dp-notes'}, reply.notes.map((note) => make('li', {}, linked(note))))));
      if (reply.names) parts.push(make('div', {}, make('h4', {}, label('dp_names')), tableNode(reply.names)));
    }
    answer.replaceChildren(...parts);
    answer.dataset.method = method.select.value;
    answer.dataset.engine = engine.select.value;
    answer.dataset.kind = reply.refusal ? 'refusal' : 'configuration';
  }
  method.select.value = options.given.method;
  engine.select.value = options.given.engine;
  shape();
  show(options.first);
  const node = make('section', {class: 'pv-card', 'data-config': ''}, make('h4', {}, label('dp_config')),
    make('div', {class: 'pv-fields'}, method.node, engine.node, length.node, rule.node),
    make('div', {class: 'pv-fields'}, Object.values(names).map((field) => field.node)), params, status.node, answer);
  return {node, choose(wantedMethod, wantedEngine) {
    method.select.value = wantedMethod;
    engine.select.value = wantedEngine;
    methodChanged();
  }};
}
