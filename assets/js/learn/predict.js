// Predict, then look: every choice has its own feedback; nothing is sent, nothing is scored.
let chosen = null;
const name = `predict-${Math.random().toString(36).slice(2)}`;
const MARKS = {yes: 'M4 12.500 9.500 18 20 6.500', no: 'M6 6 18 18M18 6 6 18'};

function mark(right) {
  return makeSvg('svg', {viewBox: '0 0 24 24', class: `mark ${right ? 'yes' : 'no'}`, 'aria-hidden': 'true'}, makeSvg('path', {d: MARKS[right ? 'yes' : 'no']}));
}

function draw({question, choices, answer, words}) {
  const feedback = make('div', {class: 'feedback', 'aria-live': 'polite'});
  const rows = choices.map(([text], index) => {
    const input = make('input', {type: 'radio', name, value: index});
    const row = make('label', {class: 'choice'}, input, make('span', {}, emphasised(text)));
    input.addEventListener('change', () => { chosen = index; reveal(); });
    return row;
  });
  function reveal() {
    rows.forEach((row, index) => {
      row.querySelector('svg')?.remove();
      row.classList.toggle('chosen', index === chosen);
      row.classList.toggle('right', index === answer);
      if (index === chosen || index === answer) row.append(mark(index === answer));
    });
    element.dataset.answered = String(chosen);
    const right = chosen === answer;
    feedback.className = `feedback ${right ? 'yes' : 'no'}`;
    feedback.replaceChildren(make('b', {}, right ? words.right : words.wrong), make('p', {}, emphasised(choices[chosen][1])));
    if (!right) feedback.append(make('p', {}, make('b', {}, words.instead), ' ', emphasised(choices[answer][0]), words.stop, ' ', emphasised(choices[answer][1])));
  }
  root.replaceChildren(make('fieldset', {class: 'predict'},
    make('legend', {}, make('span', {class: 'tag'}, words.predict), make('span', {}, emphasised(question))),
    make('div', {class: 'choices'}, rows), feedback, make('p', {class: 'small'}, words.no_score)));
}
start(draw);
