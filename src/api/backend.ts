import type { StatusReport } from '../domain/report/status-schema.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
import type { METHODS } from './contract.ts';
import type { WireType } from './wire-types.ts';

type Methods = typeof METHODS;

export type MethodName = keyof Methods;

export type ArgsOf<M extends MethodName> = {
  readonly [A in keyof Methods[M]['args']]: Methods[M]['args'][A] extends WireType<infer T> ? T : never;
};

export type ResultOf<M extends MethodName> =
  Methods[M]['result'] extends Readonly<Record<string, WireType<infer T>>> ? T : never;

export type AnswerOf<M extends MethodName> = keyof Methods[M]['result'] extends never
  ? Promise<void>
  : Promise<ResultOf<M>>;

export interface ApiCall {
  /** Aborts when the service stops. */
  readonly signal: AbortSignal;
  /** The user id of the caller. It is undefined for a method that anybody may call. */
  readonly uid: number | undefined;
}

/**
 * Executes the methods of the contract. Their errors are sent to the caller: an AppError with its
 * code and message.
 */
export type ApiMethods = {
  readonly [M in MethodName]: (args: ArgsOf<M>, call: ApiCall) => AnswerOf<M>;
};

export interface ApiBackend {
  readonly methods: ApiMethods;
  /**
   * The current state, the source of all properties. It is undefined while the daemon starts. No
   * I/O.
   */
  report(): StatusReport | undefined;
  /** Grows with each event of the history; 0 before there is one. */
  newestEvent(): number;
  onReport(listener: (report: StatusReport) => void): Unsubscribe;
}
