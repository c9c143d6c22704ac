import { busCall } from '../host/bus/message-bus.ts';
import { AppError } from '../platform/app-error.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { CallerBudget } from './authority.ts';
import type { ApiBackend } from './backend.ts';
import { type ApiBus, SERVICE } from './contract.ts';
import { answer, type Dispatch, refusalOf } from './dispatch.ts';
import { ChangeAnnouncer } from './properties/objects.ts';

export interface ApiServiceDeps {
  readonly bus: ApiBus;
  readonly backend: ApiBackend;
  readonly clock: Clock;
  readonly log: Log;
  /** The user of this process, who may call everything, like root. */
  readonly ownUid: number;
}

/** A running D-Bus service. */
export interface ApiService {
  /** Ends running calls and releases the name. */
  dispose(): Promise<void>;
}

/** A flag of `RequestName`: fail instead of waiting for the name. */
const DO_NOT_QUEUE = 4;
/** The answer of `RequestName` when another process has the name. */
const EXISTS = 3;

/**
 * Serves `io.stickpin1` and keeps serving it across reconnections. Root may call everything, others
 * what the contract and polkit allow.
 */
export function createApiService({ bus, backend, clock, log, ownUid }: ApiServiceDeps): ApiService {
  const stop = new AbortController();
  const own = (): void => ownName(bus, log, stop.signal);
  const budget = new CallerBudget({ bus, clock, ownUid });
  const replies = { report: undefined, byCall: new Map() };
  const dispatch: Dispatch = { bus, backend, ownUid, budget, replies, signal: stop.signal };
  bus.serve((call) => answer(call, dispatch), refusalOf);
  const off = bus.onConnected(own);
  const announcer = new ChangeAnnouncer(bus, backend, clock, log);
  own();
  return {
    dispose: async () => {
      off();
      announcer.stop();
      stop.abort(new AppError({ code: 'api/stopping', message: 'The daemon is stopping', disposition: 'retry' }));
      await bus.call(busCall('ReleaseName', 's', [SERVICE]), AbortSignal.timeout(1_000)).catch(() => undefined);
    },
  };
}

/** Requests our name and logs a failure. After a reconnection it is requested again. */
function ownName(bus: ApiBus, log: Log, signal: AbortSignal): void {
  bus.call(busCall('RequestName', 'su', [SERVICE, DO_NOT_QUEUE]), signal).then(
    ([result]) => {
      // Two daemons would conflict on media, pins and the port.
      if (result === EXISTS) {
        log.error({ name: SERVICE }, `The D-Bus name ${SERVICE} is taken: another stickpin is running`);
      }
    },
    (err: unknown) => {
      if (signal.aborted || isUnreachable(err)) return;
      log.error({ err }, `The D-Bus name ${SERVICE} could not be taken`);
    },
  );
}

function isUnreachable(error: unknown): boolean {
  return error instanceof AppError && error.code === 'platform/bus-unreachable';
}
