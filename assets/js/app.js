// Page-wide behaviour: language, theme, large type, permalinks. No request leaves the machine.
(() => {
  const root = document.documentElement;
  const query = new URLSearchParams(location.search);
  const chinese = /\/zh\/?$/.test(location.pathname);
  root.lang = chinese ? 'zh-CN' : 'en';

  // ?lang=zh opens the Chinese page; the rest of the query stays.
  const wanted = query.get('lang');
  if ((wanted === 'zh' && !chinese) || (wanted === 'en' && chinese)) {
    const url = new URL(location.href);
    url.pathname = chinese ? url.pathname.replace(/\/zh\/?$/, '/') : url.pathname.replace(/\/?$/, '/zh');
    url.searchParams.delete('lang');
    location.replace(url);
    return;
  }

  const store = {
    get(key) { try { return localStorage.getItem(key); } catch { return null; } },
    set(key, value) { try { localStorage.setItem(key, value); } catch { /* private mode */ } },
  };

  function replaceQuery(params) {
    const url = new URL(location.href);
    url.search = params.toString();
    history.replaceState(history.state, '', url);
    if (window.parent !== window) {
      window.parent.postMessage({ queryString: params.toString(), hash: '' }, 'https://huggingface.co');
    }
  }

  // Light and dark: follow the system until the visitor chooses.
  function applyTheme() {
    const forced = query.get('__theme');
    const choice = store.get('speclab-theme');
    if (!document.body || !choice || forced === 'dark' || forced === 'light') return;
    const dark = choice === 'dark';
    if (document.body.classList.contains('dark') !== dark) document.body.classList.toggle('dark', dark);
  }
  function toggleTheme() {
    const dark = !document.body.classList.contains('dark');
    store.set('speclab-theme', dark ? 'dark' : 'light');
    query.delete('__theme');
    document.body.classList.toggle('dark', dark);
  }

  // Large type for a projector: ?big=1 or the button.
  function setBig(on) {
    root.classList.toggle('sl-big', on);
    const params = new URLSearchParams(location.search);
    if (on) params.set('big', '1'); else params.delete('big');
    if (params.toString() !== new URLSearchParams(location.search).toString()) replaceQuery(params);
  }
  root.classList.toggle('sl-big', query.get('big') === '1');

  function keepTheme() {
    applyTheme();
    new MutationObserver(applyTheme).observe(document.body, { attributes: true, attributeFilter: ['class'] });
  }
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', keepTheme);
  else keepTheme();

  document.addEventListener('click', (event) => {
    const tool = event.target.closest?.('[data-sl]');
    if (!tool) return;
    if (tool.dataset.sl === 'theme') toggleTheme();
    if (tool.dataset.sl === 'projector') setBig(!root.classList.contains('sl-big'));
    if (tool.dataset.sl === 'settings') {
      tool.setAttribute('aria-expanded', String(tool.closest('.sl-watch').classList.toggle('sl-open')));
    }
    if (tool.dataset.sl === 'lang') {
      event.preventDefault();
      const url = new URL(location.href);
      url.pathname = chinese ? url.pathname.replace(/\/zh\/?$/, '/') : url.pathname.replace(/\/?$/, '/zh');
      location.assign(url);
    }
  });

  // Keys of the page itself are kept when a run writes its state.
  const OWN = ['big', '__theme'];
  window.speclab = {
    pushState(state) {
      if (!state) return;
      const now = new URLSearchParams(location.search);
      const params = new URLSearchParams(state);
      for (const key of OWN) if (now.has(key)) params.set(key, now.get(key));
      replaceQuery(params);
    },
    async copyLink(state) {
      this.pushState(state);
      try {
        await navigator.clipboard.writeText(location.href);
      } catch {
        const box = document.createElement('textarea');
        box.value = location.href;
        document.body.append(box);
        box.select();
        try { document.execCommand('copy'); } finally { box.remove(); }
      }
    },
  };
})();
