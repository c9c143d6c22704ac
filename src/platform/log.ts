/**
 * The journal shows them in upper case (`bundleId` → `BUNDLE_ID`). `messageId` is the 128-bit id of
 * systemd.journal-fields(7) that the catalog explains.
 */
export interface LogFields {
  readonly bundleId?: string;
  readonly medium?: string;
  readonly digest?: string;
  readonly messageId?: string;
  readonly err?: unknown;
  readonly [field: string]: unknown;
}

export const silentLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/** Fields first, then a message for an operator. An error is logged once, where it is handled. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}
