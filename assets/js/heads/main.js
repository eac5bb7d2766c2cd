// Tab "Heads": choose a target and a head, size its tree, see what the size brings and costs.
const WAIT_MS = 120;

function rangeField(name, text, most, value, changed) {
  const shown = make('output', {class: 'hd-value'});
  const input = make('input', {type: 'range', class: 'hd-range', 'data-field': name, min: 1, max: most, step: 1, value});
  const paint = () => { shown.textContent = input.value; };
  input.addEventListener('input', (event) => { paint(); changed(event); });
  paint();
  return {
    node: make('label', {class: 'op-label'}, make('span', {class: 'hd-slider'}, text, shown), input),
    input,
    set(now, limit) { input.max = limit; input.value = now; paint(); },
  };
}

function mountHeads(element, options, call) {
  measureUnit(element);
  const {pairs, given, plotly} = options;
  const pair = selectField('pair', label('hd_pair'), pairs.map((each) => [each.name, each.title]), pairChanged);
  const head = selectField('head', label('hd_head'), [], reload);
  const temperature = selectField('temperature', label('hd_temperature'), [[0, label('hd_greedy')], [1, label('hd_sampled')]], reload);
  const depth = rangeField('depth', label('hd_depth'), 8, given.depth, resized);
  const width = rangeField('width', label('hd_width'), 10, given.width, resized);
  const nodes = rangeField('nodes', label('hd_nodes'), 64, given.nodes, resized);
  const toBest = actionButton(label('hd_to_best'), goToBest, true);
  const status = statusLine(), verdict = verdictBox(), notes = make('div', {class: 'hd-notes'});
  const treeTitle = make('h4'), treeBox = make('div', {class: 'pv-scroll hd-scroll', tabindex: 0, role: 'region'}), legend = make('div'), chartLegend = make('div');
  const chart = plotBox(plotly, label('hd_chart'));
  const none = make('div', {class: 'pv-card', hidden: true});
  const folds = {about: aboutFold(), ranks: ranksFold(plotly), loss: lossFold(plotly), depth: depthFold(plotly), trees: sentencesFold(label('hd_fold_trees')), table: tableFold()};
  const sliders = make('div', {class: 'hd-sliders'}, nodes.node, depth.node, width.node, toBest);
  const card = make('section', {class: 'pv-card hd-main'}, verdict.node, sliders, make('div', {class: 'hd-pair'},
    make('figure', {class: 'hd-chart'}, make('h4', {}, label('hd_chart')), chartLegend, chart.node),
    make('figure', {}, treeTitle, treeBox, legend, make('figcaption', {class: 'pv-fine'}, label('hd_tree_note')))),
  notes);
  let edition = 0, timer = 0, best = null, shown = null;
  const wanted = {depth: given.depth, width: given.width, nodes: given.nodes};

  const request = () => ({pair: pair.select.value, head: head.select.value, temperature: +temperature.select.value, ...wanted});

  function offerHeads(wanted) {
    const known = pairs.find((each) => each.name === pair.select.value)?.heads ?? [];
    head.select.replaceChildren(...known.map((each) => make('option', {value: each.kind}, each.title)));
    if (known.some((each) => each.kind === wanted)) head.select.value = wanted;
    head.node.hidden = !known.length;
  }
  function pairChanged() {
    offerHeads(head.select.value);
    reload();
  }
  async function ask(name, show) {
    const mine = (edition += 1);
    clearTimeout(timer);
    const late = setTimeout(() => status.say(label('hd_running'), 'busy'), 400);
    const reply = await call(name, request()).catch(() => ({error: label('no_answer')}));
    clearTimeout(late);
    if (mine !== edition) return;
    status.say(reply.error || '', reply.error ? 'bad' : 'info');
    if (!reply.error) show(reply);
  }
  function reload() { ask('view', showView); }
  function resized(event) {
    wanted[event.target.dataset.field] = +event.target.value;
    clearTimeout(timer);
    timer = setTimeout(() => ask('tree', showTree), WAIT_MS);
  }
  function goToBest() {
    wanted.nodes = best;
    ask('tree', showTree);
  }

  function showView(view) {
    none.hidden = !view.none;
    card.hidden = Boolean(view.none);
    temperature.node.hidden = !view.table.table;
    for (const [name, fold] of Object.entries(folds)) fold.node.hidden = Boolean(view.none) && name !== 'table';
    folds.table.show(view.table);
    element.dataset.head = view.kind || '';
    if (view.none) {
      none.replaceChildren(make('p', {}, view.none.text), commandNode(view.none.command));
      return;
    }
    for (const name of ['about', 'ranks', 'loss', 'depth', 'trees']) folds[name].show(view[name], view[`${name}_note`]);
    showTree(view.tree);
  }
  function showTree(tree) {
    const {chosen, most} = tree;
    best = tree.best;
    depth.set(chosen.depth, most.depth);
    nodes.set(chosen.nodes, Math.max(most.nodes, chosen.nodes));
    width.set(chosen.width, most.width);
    for (const field of [depth, width, nodes]) field.input.disabled = +field.input.max < 2;
    verdict.say(...tree.sentences);
    treeTitle.textContent = tree.title;
    treeBox.setAttribute('aria-label', tree.title);
    shown = tree;
    drawTree();
    legend.replaceChildren(treeLegend(tree.best !== null));
    notes.replaceChildren(...tree.notes.map((note) => make('p', {class: 'pv-fine'}, note.text, note.command ? [' ', commandNode(note.command)] : null)));
    toBest.hidden = !best;
    toBest.disabled = best === chosen.nodes;
    chart.show(tree.figure);
    chartLegend.replaceChildren(legendOf(tree.figure));
    Object.assign(element.dataset, {nodes: chosen.nodes, best: best ?? '', speedup: tree.values.speedup ?? ''});
  }

  function drawTree() {
    measureUnit(element);
    treeBox.replaceChildren(guessTree(shown.nodes, shown.title));
    treeBox.scrollTop = rootHeight(shown.nodes) - treeBox.clientHeight / 2;
  }

  element.append(make('div', {class: 'pv-fields hd-choice'}, pair.node, head.node, temperature.node), status.node, none, card, ...Object.values(folds).map((fold) => fold.node));
  pair.select.value = given.pair;
  offerHeads(given.head);
  showView(options.first);
  new ResizeObserver(() => { if (shown) drawTree(); }).observe(element);
}
