// The list of lessons: cards on the first page, a row of pills inside a lesson, two links at its end.
function link(lesson, children, attributes) {
  return make('a', {href: `?lesson=${lesson.number}`, 'data-lesson': lesson.number, target: '_self', ...attributes}, children);
}

function card(lesson, words) {
  return make('li', {}, link(lesson, [
    make('span', {class: 'number', 'aria-hidden': 'true'}, String(lesson.number)),
    make('span', {class: 'title'}, lesson.title),
    make('span', {class: 'question'}, lesson.question),
    make('span', {class: 'minutes'}, fillIn(words.minutes, {n: lesson.minutes})),
  ], {class: 'card'}));
}

function pill(lesson, current) {
  return make('li', {}, link(lesson, `${lesson.number}. ${lesson.title}`, {class: 'pill', 'aria-current': lesson.number === current && 'page'}));
}

function draw({lessons, current, place, words, fault}) {
  const nav = make('nav', {'aria-label': words.lessons, class: place === 'foot' ? 'foot' : current ? 'row' : 'home'});
  if (place === 'foot') {
    const at = lessons.findIndex((lesson) => lesson.number === current);
    const side = (lesson, word, mark) => lesson ? link(lesson, [make('small', {}, word), make('span', {}, lesson.title)], {class: `side ${mark}`}) : make('span', {});
    nav.append(side(lessons[at - 1], words.previous, 'back'), side(lessons[at + 1], words.next, 'on'));
  } else if (current) {
    nav.append(make('a', {href: '?lesson=0', 'data-lesson': 0, target: '_self', class: 'pill all'}, words.all), make('ol', {}, lessons.map((lesson) => pill(lesson, current))));
  } else {
    nav.append(make('h2', {}, words.welcome), make('p', {class: 'about'}, words.about));
    if (fault) nav.append(make('p', {class: 'fault', role: 'alert'}, fault));
    nav.append(make('ol', {}, lessons.map((lesson) => card(lesson, words))));
  }
  root.replaceChildren(nav);
  const here = nav.querySelector('[aria-current]');
  here?.scrollIntoView({block: 'nearest', inline: 'center'});
  if (place !== 'foot' && window.speclab?.lessonChosen) {
    window.speclab.lessonChosen = false;
    (here || nav.querySelector('.card'))?.focus({preventScroll: true});
  }
}

element.addEventListener('click', (event) => {
  const chosen = event.target.closest('[data-lesson]');
  if (!chosen || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const lesson = +chosen.dataset.lesson;
  if (window.speclab) {
    window.speclab.pushState(`lesson=${lesson}`);
    window.speclab.lessonChosen = true; // the list then takes the focus from a link that is gone
  }
  trigger('open', {lesson});
  document.querySelector('.sl-lessons')?.scrollIntoView({block: 'start'});
});
start(draw);
