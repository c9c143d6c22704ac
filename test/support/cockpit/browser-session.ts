import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import axe from 'axe-core';
import { type Browser, type Frame, launch, type Page } from 'puppeteer-core';
import { expect } from 'vitest';
import { eventually } from '../eventually.ts';
import { freePort } from '../free-port.ts';
import { program, programPath, type Requirement } from '../requirements.ts';
import { execute } from '../rootfs/execute.ts';

const COCKPIT_WS = '/usr/lib/cockpit/cockpit-ws';

export const browserNeed = program('chromium', 'apt-get install chromium');

/** What a page in Cockpit needs. */
export const cockpitNeeds: readonly Requirement[] = [
  { name: 'cockpit-ws', isMet: () => existsSync(COCKPIT_WS), remedy: 'apt-get install cockpit-ws' },
  program('cockpit-bridge', 'apt-get install cockpit-bridge'),
  browserNeed,
  program('unshare', 'apt-get install util-linux'),
];

export interface SessionOptions {
  /** The system bus of the session. */
  readonly address: string;
  /** What is at `/run/stickpin` in the session. */
  readonly runFolder?: string;
  /** A folder with the program `stickpin`. */
  readonly programs?: string;
  /** The user of the session; default root. */
  readonly uid?: number;
}

/** The page in a browser, in a session of Cockpit. */
export class BrowserSession {
  private constructor(
    private readonly folder: string,
    private readonly endServer: () => Promise<unknown>,
    private readonly browser: Browser,
    private readonly url: string,
    readonly page: Page,
    /** Errors of the page and what its policy refused. */
    readonly faults: readonly string[],
    /** A machine is slower than a session on this host. */
    private readonly waitMs: number,
  ) {}

  /** The page alone, without a login. */
  static async open(options: SessionOptions): Promise<BrowserSession> {
    const folder = await layOut();
    const bridge = join(folder, 'bridge');
    await writeProgram(bridge, bridgeScript(options));
    const port = await freePort();
    const environment = { DBUS_SYSTEM_BUS_ADDRESS: options.address, XDG_DATA_HOME: join(folder, 'share') };
    const server = startServer(folder, [COCKPIT_WS, ...listenOn(port), `--local-session=${bridge}`], environment);
    const url = `http://127.0.0.1:${port}/cockpit/@localhost/stickpin/index.html`;
    return BrowserSession.browse(folder, url, server);
  }

  /** The page in Cockpit at `origin`, after a login. */
  static async logIn(origin: string, user: string, password: string): Promise<BrowserSession> {
    const folder = await mkdtemp(join(tmpdir(), 'stickpin-login-'));
    const session = await BrowserSession.browse(folder, `${origin}/stickpin`, async () => undefined, 480_000);
    await session.page.locator('#login-user-input').fill(user);
    await session.page.locator('#login-password-input').fill(password);
    await session.page.locator('#login-button').click();
    return session;
  }

  private static async browse(
    folder: string,
    url: string,
    endServer: () => Promise<unknown>,
    waitMs = 60_000,
  ): Promise<BrowserSession> {
    const browser = await launch({
      executablePath: programPath('chromium') ?? '',
      args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--lang=en-GB'],
      env: { ...process.env, HOME: folder, TZ: 'UTC' },
      userDataDir: join(folder, 'browser'),
      acceptInsecureCerts: true,
    });
    const page = await browser.newPage();
    page.setDefaultTimeout(waitMs);
    const faults: string[] = [];
    page.on('pageerror', (error) => faults.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error') faults.push(message.text());
    });
    const session = new BrowserSession(folder, endServer, browser, url, page, faults, waitMs);
    await session.resize(1_280, 900);
    await eventually(async () => expect((await page.goto(url))?.status()).toBe(200), waitMs);
    return session;
  }

  /** Our page, also inside of Cockpit's own. */
  private get frame(): Frame {
    return this.page.frames().find((frame) => frame.url().includes('/stickpin/index.html')) ?? this.page.mainFrame();
  }

  async go(path = ''): Promise<void> {
    await this.page.goto(`${this.url}#/${path}`);
  }

  resize(width: number, height: number): Promise<void> {
    return this.page.setViewport({ width, height });
  }

  /** Everything that is to be read, with one blank for each run of blanks and line ends. */
  async text(): Promise<string> {
    return String(await this.frame.evaluate('document.body.innerText')).replace(/\s+/g, ' ');
  }

  /** Waits until the text matches. */
  shows(pattern: RegExp): Promise<void> {
    return eventually(async () => expect(await this.text()).toMatch(pattern), this.waitMs);
  }

  /** Clicks what has this role and name, with the mouse. */
  async click(name: string, role = 'button'): Promise<void> {
    await this.frame.locator(`::-p-aria([name="${name}"][role="${role}"])`).click();
  }

  /** Clicks a button of the dialog, and waits until the dialog has closed or changed. */
  async inDialog(name: string): Promise<void> {
    await this.frame.locator('dialog').wait();
    await this.frame.locator(`dialog ::-p-aria([name="${name}"][role="button"])`).click();
  }

  /** Turns on Cockpit's administrative access with the password of the user. */
  async administer(password: string): Promise<void> {
    await this.page.locator('::-p-aria([name="Limited access"][role="button"])').click();
    await this.page.locator('.pf-v6-c-modal-box input[type="password"]').fill(password);
    await this.page.locator('.pf-v6-c-modal-box ::-p-aria([name="Authenticate"][role="button"])').click();
    await this.page.locator('::-p-aria([name="Administrative access"][role="button"])').wait();
  }

  /** Where the browser saves files from now on. Returns the folder. */
  async saveTo(folder: string): Promise<string> {
    await mkdir(folder, { recursive: true });
    const client = await this.page.createCDPSession();
    await client.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: folder });
    return folder;
  }

  /** The name of the element with the focus. */
  async focused(): Promise<string> {
    const name = 'document.activeElement.getAttribute("aria-label") ?? document.activeElement.innerText';
    return String(await this.frame.evaluate(name));
  }

  /** Chooses a style as Cockpit's own menu does. */
  async style(style: 'light' | 'dark'): Promise<void> {
    await this.frame.evaluate(`localStorage.setItem('shell:style', '${style}');
      dispatchEvent(new CustomEvent('cockpit-style', { detail: { style: '${style}' } }));`);
    // Colours change over some frames.
    await this.frame.evaluate('Promise.all(document.getAnimations().map(({ finished }) => finished.catch(() => {})))');
  }

  /** What axe finds. */
  async findings(): Promise<readonly string[]> {
    await this.frame.evaluate(axe.source);
    const { violations } = (await this.frame.evaluate('axe.run()')) as axe.AxeResults;
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`),
    );
  }

  /** Elements that are wider than the screen. */
  async overflow(): Promise<readonly string[]> {
    const wide = `[...document.querySelectorAll('body *')]
      .filter((element) => element.getBoundingClientRect().right > innerWidth + 1 && element.closest('svg, .pf-v6-c-tabs__list, .sp-graph') === null)
      .map((element) => element.outerHTML.slice(0, 200))`;
    return (await this.frame.evaluate(wide)) as readonly string[];
  }

  /** Words of text from elsewhere that stand in more than one line. */
  async brokenWords(): Promise<readonly string[]> {
    const broken = `[...document.querySelectorAll('.sp-foreign')].flatMap((element) =>
      [...element.childNodes].filter((node) => node instanceof Text).flatMap((node) =>
        [...node.data.matchAll(/\\p{L}+/gu)].flatMap(({ 0: word, index }) => {
          const range = document.createRange();
          range.setStart(node, index);
          range.setEnd(node, index + word.length);
          return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1 ? [word] : [];
        })))`;
    return (await this.frame.evaluate(broken)) as readonly string[];
  }

  /** Saves what is seen as NAME.png in the folder of STICKPIN_TEST_SCREENS, if it is set. */
  async picture(name: string): Promise<void> {
    const target = process.env.STICKPIN_TEST_SCREENS;
    if (target === undefined) return;
    await mkdir(target, { recursive: true });
    await this.page.screenshot({ path: join(target, `${name}.png`), fullPage: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.browser.close();
    await this.endServer();
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A folder with the page, and with what Cockpit needs beside it. */
async function layOut(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'stickpin-cockpit-'));
  await chmod(folder, 0o755);
  const repository = fileURLToPath(new URL('../../../', import.meta.url));
  const target = join(folder, 'share/cockpit/stickpin');
  await execute([process.execPath, join(repository, 'packaging/cockpit.mjs'), target], { cwd: repository });
  for (const name of ['config', 'runtime', 'browser']) await mkdir(join(folder, name));
  await chmod(join(folder, 'runtime'), 0o777);
  return folder;
}

function listenOn(port: number): readonly string[] {
  return ['--no-tls', '--address=127.0.0.1', `--port=${port}`];
}

/** Returns what ends it. */
function startServer(folder: string, argv: readonly string[], environment: NodeJS.ProcessEnv): () => Promise<unknown> {
  const [file = '', ...args] = argv;
  const env = {
    ...process.env,
    XDG_DATA_DIRS: '/usr/share',
    XDG_CONFIG_DIRS: join(folder, 'config'),
    XDG_RUNTIME_DIR: join(folder, 'runtime'),
    ...environment,
  };
  const server = spawn(file, args, { env, stdio: 'ignore' });
  return () => {
    const exited = once(server, 'exit');
    server.kill();
    return exited;
  };
}

/** Starts the bridge, with a folder /run of its own, in which nothing of this machine is seen. */
function bridgeScript({ runFolder, programs, uid = 0 }: SessionOptions): string {
  const identity = uid === 0 ? '' : `setpriv --reuid=${uid} --regid=${uid} --clear-groups`;
  return `exec unshare --mount /bin/sh -ec '
mount -t tmpfs none /run
mkdir -p /run/stickpin
${runFolder === undefined ? '' : `mount --bind "${runFolder}" /run/stickpin`}
PATH="${programs ?? '/nonexistent'}:/usr/sbin:/usr/bin:/sbin:/bin" exec ${identity} ${programPath('cockpit-bridge')} "$@"' bridge "$@"
`;
}

async function writeProgram(path: string, script: string): Promise<void> {
  await writeFile(path, `#!/bin/sh\n${script}`);
  await chmod(path, 0o755);
}
