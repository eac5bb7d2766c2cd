// A running server read once or twice, a pasted page, or the details of one request.
const SOURCES = ['address', 'page', 'details'];

function metricsCard(options, call) {
  const source = selectField('source', label('dp_source'), SOURCES.map((name) => [name, label(`dp_source_${name}`)]), sourceChanged);
  const address = inputField('address', label('dp_address'), '', {type: 'url', inputmode: 'url', maxlength: 2000, placeholder: 'http://127.0.0.1:8000/metrics', spellcheck: 'false'});
  const page = areaField('page', label('dp_page'), 5, {placeholder: '# HELP vllm:spec_decode_num_drafts_total …'});
  const details = areaField('details', label('dp_details'), 5, {placeholder: '{"metrics": {"speculative_decoding": …}}'});
  const status = statusLine(), title = make('h4', {hidden: true}), table = make('div', {class: 'pv-results'}), notes = make('ul', {class: 'dp-notes', hidden: true});
  const read = actionButton(label('dp_read'), ask), forget = actionButton(label('dp_forget'), restart, true);
  const places = {address: address.node, page: page.node, details: details.node};
  let first = null;

  address.input.addEventListener('keydown', (event) => { if (event.key === 'Enter') ask(); });
  function restart() {
    first = null;
    forget.hidden = true;
    read.textContent = label('dp_read');
  }
  function sourceChanged() {
    for (const [name, node] of Object.entries(places)) node.hidden = name !== source.select.value;
    restart();
  }
  async function ask() {
    const kind = source.select.value;
    const given = {source: kind, address: address.input.value, text: kind === 'page' ? page.area.value : kind === 'details' ? details.area.value : '', first: kind === 'details' ? null : first};
    read.disabled = true;
    status.say(label('dp_running'), 'busy');
    const reply = await call('read', given).catch(() => ({error: label('no_answer')}));
    read.disabled = false;
    status.say(reply.error || '', reply.error ? 'bad' : 'info');
    if (reply.error) return;
    title.hidden = false;
    title.textContent = reply.title;
    table.replaceChildren(tableNode(reply.table));
    notes.hidden = !reply.notes.length;
    notes.replaceChildren(...reply.notes.map((note) => make('li', {}, note)));
    if (reply.reading && !first) {
      first = reply.reading;
      forget.hidden = false;
      read.textContent = label('dp_again');
    }
    node.dataset.reads = String(Number(node.dataset.reads || 0) + 1);
  }
  const node = foldNode(label('dp_metrics'), make('p', {class: 'pv-fine'}, options.about_reading), make('div', {class: 'pv-fields'}, source.node, address.node), page.node, details.node,
    make('div', {class: 'pv-row dp-row'}, read, forget, status.node), title, notes, table);
  node.setAttribute('data-metrics', '');
  sourceChanged();
  return node;
}
