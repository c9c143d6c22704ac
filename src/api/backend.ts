import type { StatusReport } from '../domain/report/report.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
import type { METHODS } from './contract.ts';
import type { WireType } from './wire-types.ts';

type Methods = typeof METHODS;

/** The name of a method of the contract. */
export type MethodName = keyof Methods;

/** The arguments of a method, by their names. */
export type ArgsOf<M extends MethodName> = {
  readonly [A in keyof Methods[M]['args']]: Methods[M]['args'][A] extends WireType<infer T> ? T : never;
};

/** The result of a method that has one. */
export type ResultOf<M extends MethodName> =
  Methods[M]['result'] extends Readonly<Record<string, WireType<infer T>>> ? T : never;

/** What a call of a method comes to. */
export type AnswerOf<M extends MethodName> = keyof Methods[M]['result'] extends never
  ? Promise<void>
  : Promise<ResultOf<M>>;

/** What a method may know of its call beside the arguments. */
export interface ApiCall {
  /** Aborts when the service stops. */
  readonly signal: AbortSignal;
  /** The user id of the caller; undefined for a method that anybody may call. */
  readonly uid: number | undefined;
}

/**
 * Carries out the methods of the contract. What they throw goes to the caller: an AppError with its
 * code and message.
 */
export type ApiMethods = {
  readonly [M in MethodName]: (args: ArgsOf<M>, call: ApiCall) => AnswerOf<M>;
};

/** What the D-Bus service needs of the daemon. */
export interface ApiBackend {
  readonly methods: ApiMethods;
  /**
   * The state as it is now, from which all properties are made; undefined while the daemon starts.
   * No I/O.
   */
  report(): StatusReport | undefined;
  /** Calls `listener` with each new report. */
  onReport(listener: (report: StatusReport) => void): Unsubscribe;
}
