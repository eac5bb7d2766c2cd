// The drafts of one target, measured: cost against acceptance, and how fast each was.
function chart({ladder, words}, width) {
  const {rungs, lines} = ladder, most = Math.max(1.1, ...rungs.map(({c}) => c * 1.15)), least = Math.max(0.002, Math.min(0.02, ...rungs.map(({c}) => c * 0.7)));
  const fit = lines.map(({speed, points}) => ({speed, points: points.map(([c, alpha]) => [Math.max(c, least), alpha])}));
  const {svg, inside, x, y, unit, line} = axes({width, height: Math.max(280, Math.min(400, width * 0.54)), xs: [least, most], ys: [0, 1.05], logX: true, xTicks: (width > 500 ? [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1] : [0.01, 0.1, 1]).filter((c) => c >= least), yTicks: [0, 0.2, 0.4, 0.6, 0.8, 1], xLabel: words.axis_c, yLabel: words.axis_alpha,
    label: fillIn(words.plane_aria, {rows: rungs.map((rung) => fillIn(words.point_published, {name: rung.name, alpha: two(rung.alpha), c: two(rung.c), gamma: rung.gamma, speed: two(rung.speed)})).join(' ')})});
  for (const {speed, points} of fit) {
    if (!points.length) continue;
    line(points, speed === 1 ? 'level none' : 'level');
    svg.append(makeSvg('text', {x: x(points[0][0]) + unit * 0.4, y: y(points[0][1]) - unit * 0.3, class: 'level'}, `${speed}×`));
  }
  rungs.forEach((rung, i) => {
    const r = unit * 0.6, at = x(Math.max(rung.c, least)), up = y(rung.alpha);
    inside.append(makeSvg('path', {class: 'mark measured', d: `M${at} ${up - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}Z`}));
    svg.append(makeSvg('text', {x: at, y: up + unit * 1.7, 'text-anchor': 'middle', class: 'label'}, String(i + 1)));
  });
  return svg;
}

function table({ladder: {rungs}, words}) {
  const fast = Math.max(...rungs.map(({speed}) => speed));
  const heads = [words.rung, words.parameters, 'α', 'c', words.best_gamma, words.speed, words.by_formula];
  return make('div', {class: 'scroll-x'}, make('table', {}, make('thead', {}, make('tr', {}, heads.map((text) => make('th', {scope: 'col'}, text)))),
    make('tbody', {}, rungs.map((rung, i) => make('tr', {'data-rung': rung.kind, class: rung.speed === fast ? 'fast' : ''}, make('th', {scope: 'row'}, `${i + 1} · ${rung.name}`), make('td', {}, rung.parameters.toLocaleString('en-US')), make('td', {}, two(rung.alpha)), make('td', {}, rung.c < 0.1 ? rung.c.toFixed(3) : two(rung.c)), make('td', {}, String(rung.gamma)),
      make('td', {}, make('b', {}, two(rung.speed)), make('small', {}, ` ${two(rung.low)}–${two(rung.high)}`)), make('td', {}, two(rung.modelled)))))));
}

function draw(data) {
  const {ladder, words, caption, badge, detail, status, tone} = data, body = make('div', {class: 'body'}), parts = [];
  const show = () => body.replaceChildren(chart(data, Math.max(280, body.clientWidth || root.clientWidth)));
  const ready = ladder && ladder.rungs.length;
  if (ready) {
    const by = (key) => ladder.rungs.reduce((best, rung) => (rung[key] > best[key] ? rung : best));
    parts.push(make('p', {class: 'total'}, fillIn(words.ladder_top, {top: by('alpha').name, fast: by('speed').name}), ' ', make('span', {class: 'badge'}, badge), ' ', make('small', {}, detail)), body,
      make('ul', {class: 'legend column'}, make('li', {}, make('i', {class: 'swatch level-key'}), make('span', {}, words.ladder_lines, ' ', make('span', {class: 'badge'}, words.modelled)))), table(data));
    if (ladder.missing.length) parts.push(make('p', {class: 'small'}, fillIn(words.ladder_missing, {names: ladder.missing.join(', ')})));
  } else parts.push(make('p', {class: 'about'}, detail));
  root.replaceChildren(make('figure', {class: 'draft-ladder draft-plane speed-figure'}, parts, make('p', {class: `status ${tone || ''}`, role: tone === 'error' ? 'alert' : 'status'}, status || ''), make('figcaption', {}, caption)));
  element.dataset.rungs = String(ready ? ladder.rungs.length : 0);
  if (ready) {
    show();
    onWidth(body, show);
  }
}
start(draw);
