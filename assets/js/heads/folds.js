// What folds out under the tree: facts, figures and the measured table. Figures are drawn when seen.
function commandNode(text) { return make('code', {class: 'hd-command'}, text); }

function missingNode(missing) {
  return make('div', {class: 'hd-missing'}, make('p', {class: 'pv-fine'}, missing.text), missing.command ? commandNode(missing.command) : null);
}

// A figure inside a fold: Plotly needs to be visible to know its width.
function foldedPlot(address, name, ...rest) {
  const plot = plotBox(address, name), before = make('div', {class: 'hd-part'}), after = make('div', {class: 'hd-part'});
  const node = foldNode(name, ...rest, before, plot.node, after);
  let figure = null;
  node.addEventListener('toggle', () => { if (node.open) plot.show(figure); });
  return {node, before, after, show(given) { figure = given; if (node.open || !given) plot.show(given); }};
}

function aboutFold() {
  const body = make('dl', {class: 'hd-about'}), node = foldNode(label('hd_fold_about'), body);
  return {node, show(lines) {
    body.replaceChildren(...lines.flatMap(({term, text, mark}) => [make('dt', {}, term), make('dd', {}, linked(text), mark ? make('span', {class: 'hd-badge'}, mark) : null)]));
  }};
}

function ranksFold(address) {
  const fold = foldedPlot(address, label('hd_fold_ranks'));
  return {node: fold.node, show(figure, note) {
    fold.show(figure);
    fold.after.replaceChildren(make('p', {class: 'pv-fine'}, note));
  }};
}

function lossFold(address) {
  const fold = foldedPlot(address, label('hd_fold_loss'));
  return {node: fold.node, show(figure) {
    fold.show(figure);
    fold.after.replaceChildren(...(figure ? [] : [make('p', {class: 'pv-fine'}, label('hd_no_log'))]));
  }};
}

function depthFold(address) {
  const rate = selectField('rate', label('hd_rate'), ['conditional', 'cumulative'].map((kind) => [kind, label(`hd_${kind}`)]), draw);
  const methods = selectField('methods', label('hd_methods'), [], draw);
  const fields = make('div', {class: 'pv-fields'}, rate.node, methods.node);
  const fold = foldedPlot(address, label('hd_fold_depth'), fields);
  let figures = {};
  function draw() { fold.show(figures[methods.select.value]?.[rate.select.value] ?? null); }
  return {node: fold.node, show(given) {
    figures = given.figures || {};
    fields.hidden = Boolean(given.missing);
    const before = methods.select.value;
    methods.select.replaceChildren(...Object.keys(figures).map((name) => make('option', {value: name}, label(`hd_${name}`))));
    if (before in figures) methods.select.value = before;
    fold.before.replaceChildren(...(given.missing ? [missingNode(given.missing)] : (given.sentences || []).map((one) => sentenceNode(one))));
    fold.after.replaceChildren(...(given.note ? [make('p', {class: 'pv-fine'}, given.note)] : []));
    draw();
  }};
}

function sentencesFold(name) {
  const body = make('div', {class: 'pv-results'}), node = foldNode(name, body);
  return {node, show(given) {
    body.replaceChildren(...(given.missing ? [missingNode(given.missing)] : given.sentences.map((one) => sentenceNode(one))));
  }};
}

function tableFold() {
  const body = make('div', {class: 'pv-results'}), node = foldNode(label('hd_fold_table'), body);
  return {node, show(given) {
    node.hidden = !given.table && !given.missing;
    body.replaceChildren(...(given.table ? [tableNode({...given.table, words: [1]})] : []), ...(given.note ? [make('p', {class: 'pv-fine'}, given.note)] : []), ...(given.skipped || []).map((text) => make('p', {class: 'pv-fine'}, text)),
      ...(given.missing ? [missingNode(given.missing)] : []));
  }};
}
