// The layers of the target: which of them draft, and which are left for its own pass.
const LAYERS_PADDING = 40; // of the fold's body, left and right
const layersFact = (round) => round.evidence.find((fact) => fact.kind === 'layers' && fact.values?.length);

/* One row per kind of part, each a list of shares from 0 to 1: whole layers up to an exit, or
   attention and MLP of every layer where some are skipped. */
function layerRows(fact) {
  if (fact.value) return [{name: label('layers_layer'), shares: fact.values}];
  const half = (odd) => fact.values.filter((_, i) => i % 2 === odd);
  return [{name: label('layers_attention'), shares: half(0)}, {name: label('layers_mlp'), shares: half(1)}];
}

function layersSentence(fact, rows) {
  const count = rows[0].shares.length;
  if (fact.value) return label('layers_exit', {exit: fact.value, layers: count, rest: count - fact.value});
  const skipped = rows.map((row) => row.shares.filter((share) => !share).length);
  return label('layers_skip', {attention: skipped[0], mlp: skipped[1], layers: count});
}

function layersDrawing(fact, rows, width) {
  const count = rows[0].shares.length, unit = unitPx * 0.8125, names = unit * 6.2, gap = 2;
  const cell = Math.max(7, Math.min(unit * 2, (width - names - 4) / count)), tall = unit * 1.7, head = unit * 1.5;
  const wide = names + count * cell + 4, height = head + rows.length * (tall + 6) + 2;
  const every = cell >= unit * 1.5 ? 1 : 5;
  const svg = makeSvg('svg', {class: 'layers-svg', width: wide, height, viewBox: `0 0 ${wide} ${height}`, 'font-size': unit, role: 'img', 'aria-label': layersSentence(fact, rows)});
  for (let i = 0; i < count; i += 1) {
    if (i % every) continue;
    svg.append(makeSvg('text', {class: 'axis', x: names + (i + 0.5) * cell, y: unit, 'text-anchor': 'middle', 'font-size': unit * 0.85}, String(i)));
  }
  rows.forEach((row, line) => {
    const y = head + line * (tall + 6);
    svg.append(makeSvg('text', {x: 0, y: y + tall * 0.68}, row.name));
    row.shares.forEach((share, i) => {
      const kind = share >= 1 ? 'drafts' : share > 0 ? 'partly' : fact.value ? 'resumes' : 'skipped';
      svg.append(makeSvg('g', {class: `layer ${kind}`},
        makeSvg('title', {}, label(`layers_${kind}_title`, {n: i, part: row.name})),
        makeSvg('rect', {x: names + i * cell + gap / 2, y, width: cell - gap, height: tall, rx: 2}),
        kind === 'skipped' ? makeSvg('path', {class: 'layer-by', d: `M${names + i * cell + gap} ${y + tall / 2}h${cell - 2 * gap}`}) : null));
    });
    if (fact.value && fact.value < count) svg.append(makeSvg('path', {class: 'layer-exit', d: `M${names + fact.value * cell} ${y - 3}v${tall + 6}`}));
  });
  return svg;
}

fold('layers', {
  hides: () => !store.rounds.some(layersFact),
  update(body) {
    const round = store.rounds[detailRound()], fact = layersFact(round);
    if (!fact) { body.replaceChildren(make('p', {class: 'hint'}, label('layers_none'))); return; }
    const rows = layerRows(fact), kinds = fact.value ? ['drafts', 'resumes'] : ['drafts', 'skipped'];
    const legend = make('div', {class: 'legend small'}, kinds.map((kind) => make('span', {class: 'key'},
      makeSvg('svg', {class: 'tree-key', viewBox: '0 0 34 18', 'aria-hidden': 'true'}, makeSvg('g', {class: `layer ${kind}`}, makeSvg('rect', {x: 2, y: 2, width: 24, height: 14, rx: 2}),
        kind === 'skipped' ? makeSvg('path', {class: 'layer-by', d: 'M4 9h20'}) : null)), label(`layers_${kind}`))));
    body.replaceChildren(make('p', {class: 'hint'}, layersSentence(fact, rows)), make('div', {class: 'scroll-x'}, layersDrawing(fact, rows, widthOf(body) - LAYERS_PADDING)), legend,
      make('p', {class: 'hint'}, label(fact.value ? 'layers_exit_help' : 'layers_skip_help')));
  },
});
