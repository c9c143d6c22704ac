import type { StatusReport } from '../../src/domain/report/status-schema.ts';
import { doctor, downloadReport, examine, fleet, history, Loaded, readFleet } from './checks.ts';
import { Daemon } from './daemon.ts';
import { type Child, el, foreign, update } from './dom.ts';
import { overview } from './overview.ts';
import { alert, spinner } from './parts.ts';
import { releases } from './releases.ts';
import { Requests } from './requests.ts';
import { followTheme } from './theme.ts';
import { pageStatusOf, timeText } from './view.ts';

const TABS = {
  overview: 'Overview',
  releases: 'Releases',
  history: 'History',
  doctor: 'Doctor',
  fleet: 'Fleet',
} as const;
type Tab = keyof typeof TABS;

/** The page: tabs over what the daemon says. */
class Page {
  private readonly daemon = new Daemon(() => this.follow());
  private readonly requests = new Requests(
    this.daemon,
    () => this.report,
    (answer) => {
      this.answer = answer;
      this.events.load();
      this.render();
    },
  );
  private readonly checks = this.loaded(examine);
  private readonly download = this.loaded(downloadReport);
  private readonly nodes = this.loaded(readFleet);
  private readonly events = this.loaded(() => this.daemon.history());
  private shownEvents = 100;
  /** What the daemon said of the last request, until another tab is opened. */
  private answer = '';
  private opened: Tab | undefined;
  private isLive = false;
  private status = '';

  constructor(private readonly host: HTMLElement) {}

  start(): void {
    this.render();
    this.daemon.connect();
    followAccess();
    cockpit.addEventListener('locationchanged', () => this.open());
    this.open();
  }

  private get report(): StatusReport | undefined {
    const { known } = this.daemon;
    return 'report' in known ? known.report : undefined;
  }

  private get tab(): Tab {
    const [name = ''] = cockpit.location.path;
    return name in TABS ? (name as Tab) : 'overview';
  }

  private loaded<T>(work: () => Promise<T>): Loaded<T> {
    return new Loaded(work, () => this.render());
  }

  /** Loads what the tab needs beside the report. */
  private open(): void {
    if (this.tab !== this.opened) {
      this.opened = this.tab;
      this.answer = '';
      this.load();
    }
    this.render();
  }

  private load(): void {
    if (this.tab === 'history' && this.isLive) this.events.load();
    if (this.tab === 'fleet') this.nodes.load();
  }

  /** A tab that was opened before the daemon answered is loaded once it does. */
  private follow(): void {
    const isLive = this.daemon.known.kind === 'live';
    const isNew = isLive && !this.isLive;
    this.isLive = isLive;
    if (isNew) this.load();
    this.showStatus();
    this.render();
  }

  /** The icon beside the page in Cockpit's menu, and the line in Health. */
  private showStatus(): void {
    const status = pageStatusOf(this.report ?? {});
    if (JSON.stringify(status) === this.status) return;
    this.status = JSON.stringify(status);
    cockpit.transport.control('notify', { page_status: status });
  }

  private render(): void {
    update(
      this.host,
      el(
        'main',
        { class: 'pf-v6-c-page__main', tabindex: -1 },
        el(
          'section',
          { class: 'pf-v6-c-page__main-section sp-top' },
          el('h1', { class: 'sp-title' }, 'stickpin'),
          this.tabs(),
        ),
        el('section', { class: 'pf-v6-c-page__main-section sp-content' }, this.banner(), this.content()),
      ),
    );
  }

  private tabs(): Child {
    return el(
      'nav',
      { class: 'pf-v6-c-tabs', 'aria-label': 'Parts of this page' },
      el(
        'ul',
        { class: 'pf-v6-c-tabs__list' },
        ...Object.entries(TABS).map(([name, title]) =>
          el(
            'li',
            { class: `pf-v6-c-tabs__item${name === this.tab ? ' pf-m-current' : ''}` },
            el(
              'button',
              {
                type: 'button',
                class: 'pf-v6-c-tabs__link',
                'aria-current': name === this.tab ? 'page' : undefined,
                onclick: () => cockpit.location.go([name]),
              },
              el('span', { class: 'pf-v6-c-tabs__item-text' }, title),
            ),
          ),
        ),
      ),
    );
  }

  private banner(): Child {
    const { known } = this.daemon;
    return el(
      'div',
      { class: 'sp-banner', 'aria-live': 'polite' },
      known.kind === 'stored'
        ? alert(
            'warning',
            'The daemon does not run',
            `This is what it wrote last, ${timeText(known.writtenAt)}. Start stickpin.service.`,
          )
        : undefined,
      this.answer === '' ? undefined : alert('good', foreign(this.answer)),
    );
  }

  private content(): Child {
    if (this.tab === 'doctor') return doctor(this.checks, this.download);
    if (this.tab === 'fleet') return fleet(this.nodes);
    if (this.tab === 'history' && (this.isLive || this.events.value !== undefined))
      return history(this.events, this.shownEvents, (shown) => this.showEvents(shown));
    const { report } = this;
    if (report === undefined) return this.missing();
    if (this.tab === 'history') return undefined;
    if (this.tab === 'overview') return overview(report, this.requests);
    const [, shown] = cockpit.location.path;
    return releases(report, this.requests, shown, (id) =>
      cockpit.location.go(id === undefined ? ['releases'] : ['releases', id]),
    );
  }

  private showEvents(shown: number): void {
    this.shownEvents = shown;
    this.render();
  }

  private missing(): Child {
    const { known } = this.daemon;
    switch (known.kind) {
      case 'starting':
        return spinner('The daemon looks at the node …');
      case 'absent':
        return alert('danger', 'The daemon does not run', 'Start stickpin.service, and see the page Doctor.');
      case 'unreadable':
        return alert(
          'danger',
          'This page does not fit the daemon',
          `The daemon has version ${known.version}. Install stickpin-cockpit of the same version.`,
        );
      default:
        return spinner('The daemon is called …');
    }
  }
}

/** Loads the page again when administrative access begins or ends: calls then have another user. */
function followAccess(): void {
  const access = cockpit.dbus(null, { bus: 'internal' }).proxy('cockpit.Superuser', '/superuser');
  let before: string | undefined;
  access.addEventListener('changed', () => {
    if (before !== undefined && before !== access.Current) location.reload();
    before = access.Current;
  });
}

followTheme();
const host = document.getElementById('page');
if (host !== null) new Page(host).start();
