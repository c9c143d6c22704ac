import type { ApiBackend, ApiCall, ApiMethods } from '../../api/backend.ts';
import { askedEvent, callerText } from '../../domain/report/events/release-events.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import type { Commands } from '../../engine/commands/commands.ts';
import { AppError } from '../../platform/app-error.ts';
import { systemClock } from '../../platform/clock.ts';
import { sentence } from '../../platform/plain-text.ts';
import type { Unsubscribe } from '../../platform/subscription.ts';
import type { Daemon } from './daemon.ts';

/** Maximum number of events in an answer. */
const SHOWN_EVENTS = 1_000;

/**
 * A report is made for callers at most so often, in milliseconds: that of a large node costs some.
 */
const FRESH_MS = 100;

/** Call `published` with each new report. */
export class DaemonBackend implements ApiBackend {
  private readonly listeners = new Set<(report: StatusReport) => void>();
  private latest: StatusReport | undefined;
  /** What was last made for a caller, and until when it is given again (monotonic milliseconds). */
  private made: { readonly report: StatusReport | undefined; readonly untilMs: number } | undefined;

  /**
   * The methods of the API. @throws AppError `api/starting` (`retry`) from each before the daemon
   * exists; `config/wrong` (`reject`) from those that change something, except the revocation of a
   * key
   */
  readonly methods: ApiMethods = {
    activate: (args, call) => this.command('activate', args, call, (commands, flat) => commands.activate(flat)),
    rollback: (args, call) => this.command('rollback', args, call, (commands, flat) => commands.rollback(flat)),
    prove: (args, call) => this.command('prove', args, call, (commands, flat) => commands.prove(flat)),
    unpin: (args, call) => this.command('unpin', args, call, (commands, flat) => commands.unpin(flat, call.signal)),
    unpinUnclaimed: (args, call) =>
      this.command('unpinUnclaimed', args, call, (commands, flat) => commands.unpinUnclaimed(flat, call.signal)),
    cancel: (args, call) => this.command('cancel', args, call, (commands) => commands.cancel()),
    approve: (args, call) => this.command('approve', args, call, (commands, flat) => commands.approve(flat)),
    reject: (args, call) => this.command('reject', args, call, (commands, flat) => commands.reject(flat)),
    pauseRollOut: (args, call) =>
      this.command('pauseRollOut', args, call, (commands, flat) => commands.pauseRollOut(flat)),
    resumeRollOut: (args, call) =>
      this.command('resumeRollOut', args, call, (commands, flat) => commands.resumeRollOut(flat)),
    rescan: (args, call) =>
      this.anew(async () => {
        await this.changing().media.rescan(call.signal);
        await this.command('rescan', args, call, (commands) => commands.resume());
      }),
    load: (args, call) => this.command('load', args, call, (_, { path }, { media }) => media.load(path, call.signal)),
    restoreKey: ({ keyId }, { uid, signal }) =>
      this.settled(this.changing, signal, (daemon) => daemon.restoreKey(keyId, uid)),
    revokeKey: ({ keyId }, { uid, signal }) =>
      this.settled(this.running, signal, (daemon) => daemon.revokeKey(keyId, uid)),
    resetStream: ({ stream }, { uid, signal }) =>
      this.settled(this.changing, signal, (daemon) => daemon.resetStream(stream, uid)),
    checkPulls: (_args, { signal }) => this.anew(() => this.running().engine.checkPulls(signal)),
    verifyImages: ({ bundle }, { signal }) => this.anew(() => this.running().engine.verifyImages(bundle, signal)),
    getHistory: async ({ bundle }) => this.running().engine.history(bundle === '' ? undefined : bundle, SHOWN_EVENTS),
    getImageStates: async ({ bundle }) => this.running().engine.imageStates(bundle),
    getImages: async ({ bundle }) => this.running().engine.imagesOf(bundle),
  };

  /** @param wrongSettings why the daemon only keeps what is recorded; undefined when it does all */
  constructor(
    private readonly daemon: () => Daemon | undefined,
    private readonly wrongSettings: () => string | undefined = () => undefined,
  ) {}

  report(): StatusReport | undefined {
    const now = systemClock.monotonic();
    if (this.made === undefined || now >= this.made.untilMs) {
      this.made = { report: this.daemon()?.engine.report() ?? this.latest, untilMs: now + FRESH_MS };
    }
    return this.made.report;
  }

  newestEvent(): number {
    return this.daemon()?.engine.newestEvent() ?? 0;
  }

  onReport(listener: (report: StatusReport) => void): Unsubscribe {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }

  published(report: StatusReport): void {
    this.latest = report;
    this.made = undefined;
    for (const listener of this.listeners) listener(report);
  }

  private readonly running = (): Daemon => {
    const daemon = this.daemon();
    if (daemon !== undefined) return daemon;
    const message = 'The daemon is still starting; try again in a moment';
    throw new AppError({ code: 'api/starting', message, disposition: 'retry' });
  };

  private readonly changing = (): Daemon => {
    const why = this.wrongSettings();
    if (why === undefined) return this.running();
    const message = `Nothing is changed while the settings are wrong: ${sentence(why)} Correct them first; see 'stickpin config check'`;
    throw new AppError({ code: 'config/wrong', message, disposition: 'reject' });
  };

  /**
   * Gives a command, and records who asked for it. `act` gets the options among the arguments. A
   * rollback names a stream, and answers to which release it goes.
   */
  private command<T, Args extends object, Options extends object = object>(
    name: string,
    { options, ...args }: Args & { readonly options?: Options },
    { uid, signal }: ApiCall,
    act: (commands: Commands, args: Omit<Args, 'options'> & Options, daemon: Daemon) => T | Promise<T>,
  ): Promise<T> {
    // The compiler does not follow types through the spreads.
    const flat = { ...args, ...options } as Omit<Args, 'options'> & Options;
    return this.settled(this.changing, signal, async (daemon) => {
      const { engine } = daemon;
      const done = await act(engine.commandsBy(callerText(name, uid)), flat, daemon);
      const about: unknown = name === 'rollback' ? done : 'bundle' in args && args.bundle;
      if (uid !== undefined) engine.note(askedEvent(name, flat, uid), typeof about === 'string' ? about : undefined);
      return done;
    });
  }

  /**
   * Waits until the record of `act` is on the disk: the caller may cut the power after the answer.
   */
  private settled<T>(daemonOf: () => Daemon, signal: AbortSignal, act: (daemon: Daemon) => Promise<T>): Promise<T> {
    return this.anew(async () => {
      const daemon = daemonOf();
      const done = await act(daemon);
      await daemon.engine.settled(signal);
      return done;
    });
  }

  /** The report is made anew after `work`, which may have changed it. */
  private async anew<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } finally {
      this.made = undefined;
    }
  }
}
