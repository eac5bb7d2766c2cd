// Axes, sliders and picks of the figures on speed.
const two = (value) => value.toFixed(2);

// A drawing with grid lines and numbers; `x` and `y` turn values into places.
function axes({width, height, xs, ys, xTicks, yTicks, xLabel, yLabel, label, xText = String, yText = (v) => v.toFixed(1), logX = false}) {
  const unit = parseFloat(getComputedStyle(root).fontSize) * 0.78, left = unit * 3, right = unit * 1.2, top = unit * (yLabel ? 2.3 : 1), bottom = unit * 3.3;
  const share = logX ? (value) => Math.log(value / xs[0]) / Math.log(xs[1] / xs[0]) : (value) => (value - xs[0]) / (xs[1] - xs[0]);
  const x = (value) => left + share(value) * (width - left - right), y = (value) => top + ((ys[1] - value) * (height - top - bottom)) / (ys[1] - ys[0]);
  const clip = `clip-${Math.random().toString(36).slice(2)}`;
  const svg = makeSvg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'font-size': unit, class: 'chart', role: 'img', 'aria-label': label},
    makeSvg('clipPath', {id: clip}, makeSvg('rect', {x: left - 1, y: top - 1, width: width - left - right + 2, height: height - top - bottom + 2})));
  for (const value of yTicks) svg.append(makeSvg('path', {class: 'grid', d: `M${left} ${y(value)}H${width - right}`}), makeSvg('text', {x: left - unit * 0.5, y: y(value) + unit * 0.35, 'text-anchor': 'end'}, yText(value)));
  for (const value of xTicks) svg.append(makeSvg('path', {class: 'tick', d: `M${x(value)} ${height - bottom}v${unit * 0.35}`}), makeSvg('text', {x: x(value), y: height - bottom + unit * 1.4, 'text-anchor': 'middle'}, xText(value)));
  svg.append(makeSvg('text', {x: (left + width - right) / 2, y: height - unit * 0.3, 'text-anchor': 'middle'}, xLabel));
  if (yLabel) svg.append(makeSvg('text', {x: 0, y: unit, 'text-anchor': 'start'}, yLabel));
  const inside = makeSvg('g', {'clip-path': `url(#${clip})`});
  svg.append(inside);
  const line = (points, name) => inside.append(makeSvg('path', {class: `curve ${name}`, d: points.map(([a, b], i) => `${i ? 'L' : 'M'}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join('')}));
  return {svg, inside, x, y, unit, line, box: {left, right: width - right, top, bottom: height - bottom}};
}

// Round steps for an axis that ends at `most`.
function ticks(most, wanted = 6) {
  const raw = most / wanted, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((n) => n * power >= raw) * power, found = [];
  for (let value = 0; value <= most + step * 1e-6; value += step) found.push(+value.toFixed(6));
  return found;
}

// A slider with its value and two buttons; `change` gets the number.
function knob({name, label, least, most, step, value, text, words}, change) {
  const input = make('input', {type: 'range', min: least, max: most, step, value, 'aria-label': label, 'data-knob': name}), output = make('output', {}, text(value));
  const set = (next) => { input.value = String(Math.max(least, Math.min(most, next))); output.textContent = text(Number(input.value)); };
  const button = (sign, word) => {
    const node = make('button', {type: 'button', class: 'step', 'aria-label': `${label}: ${word}`}, sign);
    node.addEventListener('click', () => { set(+(Number(input.value) + (sign === '+' ? step : -step)).toFixed(6)); change(Number(input.value)); });
    return node;
  };
  input.addEventListener('input', () => { output.textContent = text(Number(input.value)); change(Number(input.value)); });
  return {node: make('div', {class: 'knob'}, make('span', {class: 'name'}, label), button('−', words.less), input, button('+', words.more), output), set};
}

function picks(legend, options, chosen, change) {
  const group = `picks-${Math.random().toString(36).slice(2)}`;
  return make('fieldset', {class: 'picks'}, make('legend', {}, legend), options.map(([value, text]) => {
    const input = make('input', {type: 'radio', name: group, value, checked: value === chosen});
    input.addEventListener('change', () => change(value));
    return make('label', {class: 'pick'}, input, make('span', {}, text));
  }));
}

// Ask Python; only the last question's answer counts.
function asker(name, take) {
  let asked = 0;
  return async (payload) => {
    const turn = (asked += 1);
    let reply;
    try {
      reply = JSON.parse(await server[name](JSON.stringify(payload)));
    } catch (error) {
      reply = {error: String(error)};
    }
    if (turn === asked) take(reply);
  };
}

// Draw again when the place for it changes its width.
function onWidth(body, show) {
  let drawn = body.clientWidth;
  new ResizeObserver(() => { if (body.clientWidth && Math.abs(body.clientWidth - drawn) > 4) { drawn = body.clientWidth; show(); } }).observe(body);
}
