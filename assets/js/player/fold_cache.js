// The KV cache of one round, and where the round's milliseconds went.
const CONTEXT_CELLS = 6;
const PHASES = ['draft', 'target', 'verify', 'commit'];

// Cells of the target's cache: committed context, the pending token, every draft node.
function targetCells(round) {
  const kept = new Set(round.accepted), cells = [{kind: 'kept', text: label('pending_short'), title: label('kv_pending')}];
  for (const item of round.items) {
    const done = phaseOf(item) === 'done';
    const kind = !done ? 'new' : kept.has(item.node) ? 'kept' : 'dropped';
    cells.push({kind, text: shorten(item.name, 6), key: keyOf(item), title: label(`kv_${kind}`)});
  }
  cells.push({kind: 'pending', text: shorten(round.next.name, 6), key: keyOf(round.next), title: label('kv_next'), hide: phaseOf(round.next) !== 'done'});
  return cells;
}

// The draft reads every token it continues from: its deepest tokens are never fed to it.
function draftCells(round) {
  const own = round.items.filter((item) => !fromPool(round, item.node)), deepest = Math.max(0, ...own.map((item) => item.depth)), kept = new Set(round.accepted);
  const cells = [{kind: 'kept', text: label('pending_short'), title: label('kv_pending')}];
  for (const item of round.items) {
    const never = item.depth === deepest || fromPool(round, item.node), done = phaseOf(item) === 'done';
    const kind = never ? 'never' : !done ? 'new' : kept.has(item.node) ? 'kept' : 'dropped';
    cells.push({kind, text: shorten(item.name, 6), key: keyOf(item), title: label(`kv_${kind}`)});
  }
  return cells;
}

function cacheRow(name, cells, context, badge) {
  const row = make('div', {class: 'kv-row'}), before = Math.max(0, context - 1);
  const line = make('div', {class: 'kv-cells', tabindex: 0, role: 'list', 'aria-label': name});
  for (let i = 0; i < Math.min(CONTEXT_CELLS, before); i += 1) line.append(make('span', {class: `kv context${i === 0 ? ' deep' : ''}`, 'aria-hidden': 'true'}));
  line.append(make('span', {class: 'kv-count'}, label('kv_context', {n: before})));
  for (const cell of cells) {
    if (cell.hide) continue;
    line.append(make('span', {class: `kv ${cell.kind}`, 'data-k': cell.key, role: 'listitem', title: cell.title, 'aria-label': `${cell.text}: ${cell.title}`}, cell.text));
  }
  row.append(make('div', {class: 'kv-name'}, name, ' ', make('span', {class: `badge ${badge}`}, label(`badge_${badge}`))), line);
  return row;
}

fold('cache', {
  update(body) {
    const round = store.rounds[detailRound()], context = round.raw.context_length;
    const rows = [cacheRow(label('target'), targetCells(round), context, 'counted')];
    if (round.raw.num_draft_forwards && !layersFact(round)) rows.push(cacheRow(label('draft'), draftCells(round), context, 'modelled'));
    const legend = make('div', {class: 'legend small'}, ['kept', 'dropped', 'new', 'pending', 'never'].map((kind) => make('span', {class: 'key'}, make('span', {class: `kv ${kind} mini`, 'aria-hidden': 'true'}), label(`kv_key_${kind}`))));
    const riding = windowOf(round)?.tokens.length || 0, written = round.size + 1 + riding, dropped = round.size - round.accepted.length + riding;
    body.replaceChildren(make('p', {class: 'hint'}, label('kv_help', {written, dropped, n: round.index + 1})), ...rows, legend);
  },
});

fold('timeline', {
  update(body) {
    const rounds = nearbyRounds(7), total = (round) => PHASES.reduce((sum, name) => sum + round.timing[`${name}_s`], 0);
    const most = Math.max(1e-9, ...rounds.map(total)), unit = unitPx * 0.85, width = Math.max(280, widthOf(body));
    const rowHeight = unit * 1.7, left = unit * 3.2, right = unit * 5, scale = (width - left - right) / most, height = rounds.length * rowHeight + 4;
    const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'font-size': unit, class: 'timeline-svg', role: 'img', 'aria-label': label('timeline_aria')});
    rounds.forEach((round, i) => {
      const y = i * rowHeight + 2, group = makeSvg('g', {class: `time-row${round.index === detailRound() ? ' now' : ''}`, 'data-go': round.index});
      group.append(makeSvg('title', {}, PHASES.map((name) => `${label(`phase_${name}`)} ${milliseconds(round.timing[`${name}_s`])} ms`).join(' · ')),
        makeSvg('rect', {class: 'row-back', x: 0, y, width, height: rowHeight, rx: 4}),
        makeSvg('text', {x: left - 8, y: y + rowHeight * 0.68, 'text-anchor': 'end'}, String(round.index + 1)));
      let x = left;
      for (const name of PHASES) {
        const length = round.timing[`${name}_s`] * scale;
        group.append(makeSvg('rect', {class: `phase ${name}`, x, y: y + 3, width: length, height: rowHeight - 6}));
        x += length;
      }
      group.append(makeSvg('text', {x: x + 6, y: y + rowHeight * 0.68, class: 'value'}, `${milliseconds(total(round))} ms`));
      svg.append(group);
    });
    const legend = make('div', {class: 'legend small'}, PHASES.map((name) => make('span', {class: 'key'}, make('i', {class: `swatch phase ${name}`}), label(`phase_${name}`))));
    const sum = store.rounds.reduce((all, round) => all + total(round), 0);
    body.replaceChildren(make('p', {class: 'hint'}, label('timeline_help', {total: milliseconds(sum), prefill: milliseconds(store.trace.prefill_s || 0), n: store.rounds.length}), ' ', make('span', {class: 'badge measured'}, label('badge_measured'))), svg, legend);
  },
});
