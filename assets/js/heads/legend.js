// The legend of a figure as page elements: unlike Plotly's, it takes no room from the plot.
const DASHES = {solid: null, dash: '6 4', dot: '2 3', dashdot: '6 3 2 3', longdash: '10 4'};
const MARKS = {
  circle: 'M18 7a4 4 0 1 1-8 0a4 4 0 1 1 8 0z',
  square: 'M10 3h8v8h-8z',
  diamond: 'M14 1.500 19.500 7 14 12.500 8.500 7z',
  star: 'M14 .5l1.900 4.100 4.500.5-3.300 3.100.9 4.400-4-2.200-4 2.200.9-4.400-3.300-3.100 4.500-.5z',
};

function swatch({line, marker, mode}) {
  const svg = makeSvg('svg', {class: 'hd-swatch', viewBox: '0 0 28 14', width: 28, height: 14, 'aria-hidden': 'true'});
  if (mode.includes('lines')) svg.append(makeSvg('path', {d: 'M0 7H28', 'stroke-width': line.width, 'stroke-dasharray': DASHES[line.dash], style: `stroke: var(${line.color})`, fill: 'none'}));
  if (mode.includes('markers')) {
    const open = marker.symbol.endsWith('-open'), edge = open ? marker.color : '--ink';
    svg.append(makeSvg('path', {d: MARKS[marker.symbol.replace('-open', '')], 'stroke-width': open ? 2 : 1, style: `stroke: var(${edge}); fill: ${open ? 'none' : `var(${marker.color})`}`}));
  }
  return svg;
}

function legendOf(figure) {
  return make('div', {class: 'op-legend hd-legend'}, figure.data.map((trace) => make('span', {}, swatch(trace), trace.name)));
}
