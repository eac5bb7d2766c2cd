// The drawn u on a line from 0 to 1, with the threshold below which the token is accepted.
function drawRuler(flip) {
  const unit = unitPx * 0.85, width = Math.max(220, widthOf(ui.verdict, 420));
  const pad = unit, room = width - 2 * pad, y = unit * 2.1, thick = unit * 0.9, height = unit * 5.4;
  const at = (value) => pad + value * room, a = Math.max(0, Math.min(1, flip.accept_prob)), {id, defs} = hatch();
  const [aText, uText] = flip.u === undefined ? [prob(a), ''] : probPair(a, flip.u);
  const say = flip.u === undefined ? label('ruler_aria_none', {a: aText}) : label('ruler_aria', {a: aText, u: uText});
  const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, class: 'ruler', role: 'img', 'font-size': unit, 'aria-label': say}, defs,
    makeSvg('rect', {class: 'zone yes', x: at(0), y, width: a * room, height: thick}),
    makeSvg('rect', {class: 'zone no', x: at(a), y, width: (1 - a) * room, height: thick, fill: `url(#${id})`}),
    makeSvg('rect', {class: 'zone-frame', x: at(0), y, width: room, height: thick}),
    makeSvg('line', {class: 'threshold', x1: at(a), x2: at(a), y1: y - unit * 0.5, y2: y + thick + unit * 0.5}));
  const text = (value, name, line) => {
    const near = value < 0.2 ? 'start' : value > 0.8 ? 'end' : 'middle';
    const x = near === 'start' ? at(Math.max(value, 0)) - pad * 0.6 : near === 'end' ? at(Math.min(value, 1)) + pad * 0.6 : at(value);
    svg.append(makeSvg('text', {x, y: line, 'text-anchor': near, class: name}, name === 'u-text' ? label('ruler_u', {u: uText}) : label('ruler_threshold', {a: aText})));
  };
  text(a, 'a-text', unit * 1.15);
  if (flip.u !== undefined) {
    const x = at(flip.u), top = y + thick + 2, size = unit * 0.55;
    svg.append(makeSvg('line', {class: 'u-line', x1: x, x2: x, y1: y, y2: y + thick}),
      makeSvg('path', {class: `u-mark ${flip.u < a ? 'yes' : 'no'}`, d: `M${x} ${top}l${size} ${size * 1.4}h${-2 * size}z`}));
    text(flip.u, 'u-text', top + size * 1.4 + unit * 1.1);
  }
  return svg;
}

// For rules that compare draws: what the target drew beside what the draft had guessed.
function drawPair(item) {
  const same = item.flip.accepted;
  return make('div', {class: 'pair'},
    make('span', {class: 'pair-side'}, make('small', {}, label('draft_guessed')), make('b', {class: 'name'}, tokenName(item.token, item.before, 24))),
    make('span', {class: `pair-sign ${same ? 'yes' : 'no'}`, 'aria-hidden': 'true'}, same ? '=' : '≠'),
    make('span', {class: 'pair-side'}, make('small', {}, label('target_drew')), make('b', {class: 'name'}, tokenName(item.flip.drawn_token, item.before, 24))));
}
