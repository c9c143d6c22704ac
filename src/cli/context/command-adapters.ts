import type { FileBundleReader } from '../../bundle/read/bundle-reader.ts';
import type { BundleRepository } from '../../bundle/verify/list-repositories.ts';
import type { VerifiedBundle } from '../../domain/model/bundle.ts';
import type { Finding } from '../../domain/model/finding.ts';
import type { ShownReason } from '../../domain/report/reasons/reason-text.ts';
import type { TrustReport } from '../../domain/trust/trust-in-force.ts';

/** A bundle to be served, and where. */
export interface ServeRequest {
  readonly reader: FileBundleReader;
  /** By repository (`quay.io/coreos/etcd`). */
  readonly repositories: ReadonlyMap<string, BundleRepository>;
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
  /** Told in one line what went wrong with a transfer. */
  readonly warn: (line: string) => void;
}

/** A registry that serves a bundle. */
export interface ServedBundle {
  /** As `127.0.0.1:5000`. */
  readonly authority: string;
  /** The paths of each repository, the one that always holds first. */
  readonly paths: ReadonlyMap<string, readonly string[]>;
  close(): Promise<void>;
}

/** A bundle whose preload is to be tried. */
export interface RehearsalRequest {
  /** Where it lies, as absolute paths: one, or all its volumes. */
  readonly volumes: readonly string[];
  readonly bundle: VerifiedBundle;
  /** By whom it has to be signed; undefined: whoever signed it. `folder` is absolute. */
  readonly keys: { readonly folder: string; readonly threshold: number } | undefined;
  /** The folder in which a throw-away one is made. */
  readonly temporary: string;
  /** Told when an image was pulled, in the order in which that happens. */
  readonly onImage: (image: RehearsedImage) => void;
}

/** How the pull of one image went. */
export interface RehearsedImage {
  readonly reference: string;
  /** Bytes of its layers that no image before it had brought. */
  readonly newBytes: number;
  readonly durationMs: number;
  /** Why it failed, in the words of the runtime. */
  readonly fault?: string;
}

/** How a rehearsal ended. */
export interface Rehearsal {
  readonly images: readonly RehearsedImage[];
  readonly durationMs: number;
  /** Why a node would not get it ready; undefined when it would. */
  readonly fault: ShownReason | undefined;
}

/**
 * What the commands need of the rooms that they do not know: adapters that only a composition root
 * puts together.
 */
export interface CommandAdapters {
  /**
   * Looks at everything on this node that stickpin needs, apart from the daemon. `env` may name the
   * system bus; `trust` is what the daemon says.
   */
  examineNode(
    env: Readonly<Record<string, string | undefined>>,
    trust: TrustReport | undefined,
    signal: AbortSignal,
  ): Promise<readonly Finding[]>;
  /** Serves until it is closed. @throws AppError `registry/listen` */
  serveBundle(request: ServeRequest): Promise<ServedBundle>;
  /**
   * Has the whole daemon load a bundle into an embedded runtime, below a folder of which nothing is
   * left in the end.
   */
  rehearseBundle(request: RehearsalRequest, signal: AbortSignal): Promise<Rehearsal>;
}
