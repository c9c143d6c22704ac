import type { AnswerOf, ApiBackend, ApiCall, ApiMethods, ArgsOf } from '../../api/backend.ts';
import { askedEvent, callerText } from '../../domain/report/events/release-events.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import { COMMAND_NAMES, type CommandName } from '../../engine/loop/engine.ts';
import { AppError } from '../../platform/app-error.ts';
import { systemClock } from '../../platform/clock.ts';
import { sentence } from '../../platform/plain-text.ts';
import type { Daemon } from './daemon.ts';

/** Call `published` with each new report. */
export interface PublishingBackend extends ApiBackend {
  published(report: StatusReport): void;
}

/** Maximum number of events in an answer. */
const SHOWN_EVENTS = 1_000;

interface Published {
  readonly listeners: Set<(report: StatusReport) => void>;
  latest: StatusReport | undefined;
  /**
   * What was last made for a caller, and until when it is given again, in monotonic milliseconds.
   */
  made: { readonly report: StatusReport | undefined; readonly untilMs: number } | undefined;
}

/**
 * A report is made for callers at most so often, in milliseconds: that of a large node costs some.
 */
const FRESH_MS = 100;

/** @param wrongSettings why the daemon only keeps what is recorded; undefined when it does all */
export function createApiBackend(
  daemon: () => Daemon | undefined,
  wrongSettings: () => string | undefined = () => undefined,
): PublishingBackend {
  const published: Published = { listeners: new Set(), latest: undefined, made: undefined };
  const changing = () => {
    const why = wrongSettings();
    if (why === undefined) return started(daemon());
    const message = `Nothing is changed while the settings are wrong: ${sentence(why)} Correct them first; see 'stickpin config check'`;
    throw new AppError({ code: 'config/wrong', message, disposition: 'reject' });
  };
  return {
    methods: thenAnew(
      executors(() => started(daemon()), changing),
      published,
    ),
    published: (next) => publish(next, published),
    report: () => madeReport(daemon, published),
    newestEvent: () => daemon()?.engine.newestEvent() ?? 0,
    onReport: (listener) => {
      published.listeners.add(listener);
      return () => {
        published.listeners.delete(listener);
      };
    },
  };
}

/**
 * The implementation of each method of the API. @throws AppError `api/starting` (`retry`) from each
 * before the daemon exists; `config/wrong` (`reject`) from those that change something, except the
 * revocation of a key
 */
function executors(running: () => Daemon, changing: () => Daemon): ApiMethods {
  return {
    ...commandMethods(changing),
    getHistory: async ({ bundle }) => running().engine.history(bundle === '' ? undefined : bundle, SHOWN_EVENTS),
    getImageStates: async ({ bundle }) => running().engine.imageStates(bundle),
    getImages: async ({ bundle }) => running().engine.imagesOf(bundle),
    checkPulls: async (_args, { signal }) => running().engine.checkPulls(signal),
    verifyImages: async ({ bundle }, { signal }) => running().engine.verifyImages(bundle, signal),
    restoreKey: async ({ keyId }, { uid, signal }) =>
      settled(changing(), signal, ({ restoreKey }) => restoreKey(keyId, uid)),
    revokeKey: async ({ keyId }, { uid, signal }) =>
      settled(running(), signal, ({ revokeKey }) => revokeKey(keyId, uid)),
    resetStream: async ({ stream }, { uid, signal }) =>
      settled(changing(), signal, ({ resetStream }) => resetStream(stream, uid)),
    rescan: async (args, call) => {
      await changing().media.rescan(call.signal);
      await settled(changing(), call.signal, ({ engine }) => engine.resume(), { command: 'rescan', args, call });
    },
    load: async (args, call) =>
      settled(changing(), call.signal, ({ media }) => media.load(args.path, call.signal), {
        command: 'load',
        args,
        call,
      }),
  };
}

/**
 * Commands with the arguments and results of the contract. Commands of the engine that differ from
 * it don't compile.
 */
type ContractCommands = {
  readonly [M in CommandName]: (args: ArgsOf<M>, signal: AbortSignal) => AnswerOf<M> | Awaited<AnswerOf<M>>;
};

/**
 * The methods that are commands of the engine. Their names, arguments and results are those of the
 * contract.
 */
function commandMethods(running: () => Daemon): Pick<ApiMethods, CommandName> {
  const methods = COMMAND_NAMES.map((name) => [
    name,
    async (args: never, call: ApiCall): Promise<unknown> => {
      const by = callerText(name, call.uid);
      const act = ({ engine }: Daemon) => contractCommands(engine.commandsBy(by))[name](args, call.signal);
      return settled(running(), call.signal, act, { command: name, args, call });
    },
  ]);
  return Object.fromEntries(methods) as Pick<ApiMethods, CommandName>;
}

/** For the compiler alone: commands that differ from the contract are not assignable. */
function contractCommands(commands: ContractCommands): ContractCommands {
  return commands;
}

interface Asked {
  readonly command: string;
  readonly args: object;
  readonly call: ApiCall;
}

/**
 * Executes a command and waits until its record is on the disk, because the caller may cut the
 * power after the answer. @param asked the call, for the event about its caller; default none, for
 * commands that record their caller themselves
 */
async function settled<T>(
  daemon: Daemon,
  signal: AbortSignal,
  act: (daemon: Daemon) => T | Promise<T>,
  asked?: Asked,
): Promise<T> {
  const done = await act(daemon);
  if (asked !== undefined) noteCaller(daemon, asked, done);
  await daemon.engine.settled(signal);
  return done;
}

/** A rollback names a stream, and answers to which release it goes. */
function noteCaller({ engine }: Daemon, { command, args, call: { uid } }: Asked, answer: unknown): void {
  if (uid === undefined) return;
  const bundle: unknown = command === 'rollback' ? answer : Reflect.get(args, 'bundle');
  engine.note(askedEvent(command, args, uid), typeof bundle === 'string' ? bundle : undefined);
}

/** The same methods. After each the report is made anew: it may have changed. */
function thenAnew(methods: ApiMethods, published: Published): ApiMethods {
  const all = Object.entries(methods).map(([name, run]) => [
    name,
    async (args: never, call: ApiCall): Promise<unknown> => {
      try {
        return await run(args, call);
      } finally {
        published.made = undefined;
      }
    },
  ]);
  return Object.fromEntries(all) as ApiMethods;
}

function madeReport(daemon: () => Daemon | undefined, published: Published): StatusReport | undefined {
  const now = systemClock.monotonic();
  if (published.made === undefined || now >= published.made.untilMs) {
    published.made = { report: daemon()?.engine.report() ?? published.latest, untilMs: now + FRESH_MS };
  }
  return published.made.report;
}

function publish(report: StatusReport, published: Published): void {
  published.latest = report;
  published.made = undefined;
  for (const listener of published.listeners) listener(report);
}

function started(daemon: Daemon | undefined): Daemon {
  if (daemon !== undefined) return daemon;
  throw new AppError({
    code: 'api/starting',
    message: 'The daemon is still starting; try again in a moment',
    disposition: 'retry',
  });
}
