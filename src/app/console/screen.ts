import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { consoleText } from '../../domain/report/console-text.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import type { Terminal } from '../../host/virtual-terminal.ts';

/** console_codes(4): to the corner, no cursor, and no blank screen after minutes. */
const BEGIN = '\x1b[H\x1b[?25l\x1b[9;0]';
/** Each erases what was there before. */
const REST_OF_LINE = '\x1b[K';
const REST_OF_SCREEN = '\x1b[J';
const UNBLANK = '\x1b[13]';

/**
 * Shows reports on a terminal of its own. The screen changes to it when a stick is plugged in, and
 * back when the last one is removed. Whoever changes the screen in between keeps it. A file has the
 * terminal that was shown before, so that the next process gives the screen back after a crash.
 */
export class Screen {
  private shown: string | undefined;
  private isPlugged: boolean;
  /** The terminal that the screen showed before. */
  private before: number | undefined;

  constructor(
    private readonly terminal: Terminal,
    private readonly number: number,
    /** Undefined without systemd. */
    private readonly beforePath: string | undefined,
  ) {
    this.before = this.keptBefore();
    this.isPlugged = this.before !== undefined;
  }

  /** Call it with the same report too: it is drawn again if the terminal did not take it. */
  show(report: StatusReport): void {
    this.draw(consoleText(report));
    const isPlugged = report.media.some(({ kind }) => kind === 'stick');
    if (isPlugged && !this.isPlugged) this.come();
    if (!isPlugged && this.isPlugged) this.go();
    this.isPlugged = isPlugged;
  }

  /** Clears the terminal, and gives the screen back. */
  close(): void {
    if (this.isPlugged) this.go();
    this.terminal.write(`\x1b[H\x1b[2J\x1b[?25h`);
    this.terminal.close();
  }

  private draw(text: string): void {
    if (text === this.shown) return;
    // Erased first: behind a line that fills the terminal the cursor stands on its last character.
    const lines = text.split('\n').map((line) => `${REST_OF_LINE} ${line}\r\n`);
    const isDrawn = this.terminal.write(`${BEGIN}${REST_OF_LINE}\r\n${lines.join('')}${REST_OF_SCREEN}`);
    this.shown = isDrawn ? text : undefined;
  }

  private come(): void {
    const active = this.terminal.active();
    this.keepBefore(active === this.number ? undefined : active);
    if (this.before !== undefined) this.terminal.activate(this.number);
    this.terminal.write(UNBLANK);
  }

  private go(): void {
    const { before } = this;
    if (before !== undefined && this.terminal.active() === this.number) this.terminal.activate(before);
    this.keepBefore(undefined);
  }

  private keepBefore(before: number | undefined): void {
    this.before = before;
    if (this.beforePath === undefined) return;
    try {
      if (before === undefined) rmSync(this.beforePath, { force: true });
      else writeFileSync(this.beforePath, `${before}\n`);
    } catch {
      // Only the process after a crash needs it.
    }
  }

  private keptBefore(): number | undefined {
    if (this.beforePath === undefined) return undefined;
    try {
      const before = Number(readFileSync(this.beforePath, 'utf8'));
      return Number.isInteger(before) && before > 0 ? before : undefined;
    } catch {
      return undefined;
    }
  }
}
