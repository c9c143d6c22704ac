import type { FileBundleReader } from '../../bundle/read/bundle-reader.ts';
import type { BundleRepository } from '../../bundle/verify/list-repositories.ts';
import type { FleetView } from '../../domain/fleet/node-status.ts';
import type { VerifiedBundle } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { StickFacts } from '../../domain/model/machine.ts';
import type { Finding } from '../../domain/model/reason.ts';
import type { StoredRecords } from '../../domain/report/parts/recorded-report.ts';
import type { ShownReason } from '../../domain/report/reasons/reason-text.ts';
import type { StatusReport, TrustReport } from '../../domain/report/status-schema.ts';
import type { EventRow } from '../../ports/state.ts';

export interface ServeRequest {
  readonly reader: FileBundleReader;
  /** The keys are repositories, for example `quay.io/coreos/etcd`. */
  readonly repositories: ReadonlyMap<string, BundleRepository>;
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
  /** It gets a line about each failed transfer. */
  readonly warn: (line: string) => void;
}

export interface ServedBundle {
  /** For example `127.0.0.1:5000`. */
  readonly authority: string;
  /** The paths of each repository. The first one is always valid. */
  readonly paths: ReadonlyMap<string, readonly string[]>;
  close(): Promise<void>;
}

export interface RehearsedBundle {
  /** Absolute paths of the bundle or of all its volumes. */
  readonly volumes: readonly string[];
  readonly bundle: VerifiedBundle;
}

export interface RehearsalRequest extends RehearsedBundle {
  /** They are loaded first, in this order. */
  readonly bases: readonly RehearsedBundle[];
  /**
   * The keys that must have signed it: the absolute path of a folder or of one key file. Undefined:
   * the signature is not checked.
   */
  readonly keys: { readonly path: string; readonly threshold: number } | undefined;
  /** The parent of the temporary folder. */
  readonly temporary: string;
  readonly onImage: (image: RehearsedImage) => void;
  /** It gets the bytes of blobs that were transferred so far, about once a second. */
  readonly onBytes: (doneBytes: number) => void;
}

export interface RehearsedImage {
  readonly reference: string;
  /** Bytes of its layers that no earlier image had. */
  readonly newBytes: number;
  readonly durationMs: number;
  /** The error of the runtime. */
  readonly fault?: string;
}

export interface Rehearsal {
  readonly images: readonly RehearsedImage[];
  readonly durationMs: number;
  /** Why it would not become ready on a node; undefined when it would. */
  readonly fault: ShownReason | undefined;
}

/** A report that the daemon wrote into `status.json`. */
export interface StoredReport {
  readonly report: StatusReport;
  /** RFC 3339. */
  readonly writtenAt: string;
  readonly bootId: string;
  /** Whether the machine was started since. */
  readonly isFromBefore: boolean;
}

/** What the daemon wrote to the disk, for commands while it does not run. Changes nothing. */
export interface StoredState {
  /** Returns undefined when there is no readable `status.json`. */
  report(signal: AbortSignal): Promise<StoredReport | undefined>;
  /**
   * The adopted bundles and the rejected names of the database.
   *
   * @throws AppError `cli/no-state` (`reject`) when the database can't be read
   */
  records(signal: AbortSignal): Promise<StoredRecords>;
  /**
   * A small attachment of an adopted bundle that was not retired.
   *
   * @throws AppError `cli/no-state` (`reject`) when it can't be read
   */
  attachment(digest: Digest, signal: AbortSignal): Promise<Buffer>;
  /**
   * The newest 1,000 events of the database, oldest first; of all bundles without `bundleId`.
   *
   * @throws AppError `cli/no-state` (`reject`) when the database can't be read
   */
  history(bundleId: string | undefined, signal: AbortSignal): Promise<readonly EventRow[]>;
}

export interface SupportFact {
  /** Its name, without a folder. */
  readonly file: string;
  /** A description in a few words. */
  readonly about: string;
  readonly text: string;
}

export interface SupportSource extends Omit<SupportFact, 'text'> {
  /** The text says what could not be collected, and why. Throws only on abort. */
  collect(signal: AbortSignal): Promise<string>;
}

/** The composition root provides them. */
export interface CommandAdapters {
  readonly supportSources: readonly SupportSource[];
  /** Secrets of this node that a report must not have. */
  supportSecrets(signal: AbortSignal): Promise<readonly string[]>;
  /** Makes one file of many, which only its owner may read. @throws system errors, `EEXIST` */
  packReport(path: string, files: readonly SupportFact[], signal: AbortSignal): Promise<void>;
  readonly storedState: StoredState;
  /**
   * Checks everything on this node that stickpin needs, except the daemon. `env` may name the
   * system bus; `trust` is from the daemon.
   */
  examineNode(
    env: Readonly<Record<string, string | undefined>>,
    trust: TrustReport | undefined,
    signal: AbortSignal,
  ): Promise<readonly Finding[]>;
  /** Reads the facts of the block device at a path. @throws AppError `bundle/stick` (`reject`) */
  readStick(path: string, signal: AbortSignal): Promise<StickFacts>;
  /**
   * Yields what the fleet process knows of the cluster, now and after each change.
   * @throws AppError `fleet/unreachable` when it does not answer, `fleet/denied` for others than
   * root
   */
  watchFleet(signal: AbortSignal): AsyncIterable<FleetView>;
  /** Returns the line of `fleet.keys_file` for this node. @throws AppError `fleet/identity` */
  fleetKeyLine(signal: AbortSignal): Promise<string>;
  /** Serves until it is closed. @throws AppError `registry/listen` */
  serveBundle(request: ServeRequest): Promise<ServedBundle>;
  /**
   * Lets the daemon load a bundle into an embedded runtime below a temporary folder, which is
   * removed at the end.
   */
  rehearseBundle(request: RehearsalRequest, signal: AbortSignal): Promise<Rehearsal>;
}
