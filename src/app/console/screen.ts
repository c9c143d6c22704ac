import { consoleText } from '../../domain/report/console-text.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import type { Terminal } from '../../host/virtual-terminal.ts';

/** console_codes(4): to the corner, no cursor, and no blank screen after minutes. */
const BEGIN = '\x1b[H\x1b[?25l\x1b[9;0]';
/** Of a line, and of the screen: what was there before. */
const REST_OF_LINE = '\x1b[K';
const REST_OF_SCREEN = '\x1b[J';
const UNBLANK = '\x1b[13]';

/**
 * Shows reports on a terminal of its own. The screen changes to it when a stick is plugged in, and
 * back when the last one is removed. Whoever changes the screen in between keeps it.
 */
export class Screen {
  private shown: string | undefined;
  private isPlugged = false;
  /** The terminal that the screen showed before. */
  private before: number | undefined;

  constructor(
    private readonly terminal: Terminal,
    private readonly number: number,
  ) {}

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
    this.shown = text;
    const lines = text.split('\n').map((line) => ` ${line}${REST_OF_LINE}\r\n`);
    this.terminal.write(`${BEGIN}${REST_OF_LINE}\r\n${lines.join('')}${REST_OF_SCREEN}`);
  }

  private come(): void {
    const active = this.terminal.active();
    this.before = active === this.number ? undefined : active;
    if (this.before !== undefined) this.terminal.activate(this.number);
    this.terminal.write(UNBLANK);
  }

  private go(): void {
    const { before } = this;
    this.before = undefined;
    if (before !== undefined && this.terminal.active() === this.number) this.terminal.activate(before);
  }
}
