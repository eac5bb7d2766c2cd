// The exact law of the first token under a rule, beside the target's.
const name = `rule-${Math.random().toString(36).slice(2)}`;
let shown = 0;

function bars({p, labels, rules}, words) {
  const {law} = rules[shown], most = Math.max(...p, ...rules.flatMap((rule) => rule.law));
  const at = (value) => `${(100 * value) / most}%`;
  return make('div', {class: 'bars laws', role: 'img', 'aria-label': labels.map((token, i) => `${token}: ${prob(law[i])}, ${words.target} ${prob(p[i])}`).join('; ')},
    labels.map((token, i) => {
      const gap = law[i] - p[i], off = Math.abs(gap) > 1e-9;
      return [make('div', {class: 'n'}, token), make('div', {class: 'track'},
        make('div', {class: 'line'}, make('span', {class: `bar ${off ? 'off' : 'even'}`, style: `width:${at(law[i])}`})),
        make('span', {class: 'outline', style: `width:${at(p[i])}`})),
      make('div', {class: 'numbers'}, make('b', {}, prob(law[i])), off ? make('span', {class: 'gap'}, `${gap > 0 ? '+' : '−'}${prob(Math.abs(gap))}`) : make('span', {}, '='))];
    }));
}

function draw(data) {
  const {rules, caption, words} = data;
  const body = make('div', {'aria-live': 'polite'});
  function show() {
    const rule = rules[shown];
    body.replaceChildren(make('p', {class: 'about'}, rule.about), bars(data, words),
      make('p', {class: `total ${rule.lossless ? 'yes' : 'no'}`}, make('b', {}, rule.lossless ? words.lossless : words.not_lossless), ' ',
        fillIn(words.rule_total, {tv: prob(rule.distance), accepted: percent(rule.accepted)})));
    element.dataset.rule = rule.name;
  }
  const choices = rules.map((rule, index) => {
    const input = make('input', {type: 'radio', name, value: index, checked: index === shown});
    input.addEventListener('change', () => { shown = index; show(); });
    return make('label', {class: 'pick'}, input, make('span', {}, rule.title));
  });
  show();
  root.replaceChildren(make('figure', {class: 'rule-law'},
    make('fieldset', {class: 'picks'}, make('legend', {}, words.rule), choices), body,
    make('ul', {class: 'legend'}, make('li', {}, make('i', {class: 'swatch law'}), words.law_of_rule), make('li', {}, make('i', {class: 'swatch outline-key'}), words.law_of_target), make('li', {}, make('span', {class: 'badge'}, words.exact))),
    make('figcaption', {}, caption)));
}
start(draw);
