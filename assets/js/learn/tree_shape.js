// A tree by its parents (-1 is the text): columns by depth, leaves on successive lines.
function layOut(parents) {
  const below = parents.map(() => []), first = [], places = new Map();
  parents.forEach((parent, node) => (parent < 0 ? first : below[parent]).push(node));
  let line = 0;
  const place = (node, x) => {
    const ys = (node < 0 ? first : below[node]).map((child) => place(child, x + 1));
    const y = ys.length ? (ys[0] + ys[ys.length - 1]) / 2 : line++;
    places.set(node, {x, y});
    return y;
  };
  place(-1, 0);
  return {places, lines: Math.max(1, line), columns: 1 + Math.max(...[...places.values()].map(({x}) => x))};
}

// Curves from each parent to its child, in the units of the boxes. `size`: boxes and steps.
function treeEdges(parents, {places}, {width, height, stepX, stepY}) {
  return parents.map((parent, node) => {
    const from = places.get(parent), to = places.get(node);
    const x0 = from.x * stepX + width, x1 = to.x * stepX, middle = (x0 + x1) / 2, y0 = from.y * stepY + height / 2, y1 = to.y * stepY + height / 2;
    return makeSvg('path', {class: 'edge', d: `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`});
  });
}
