import type { BundleReader } from '../bundle/bundle-reader.ts';
import type { BundleRepository } from '../bundle/list-repositories.ts';

/** A bundle to be served, and where. */
export interface ServeRequest {
  readonly reader: BundleReader;
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

/** What the commands need of the rooms that they do not know: adapters that only a composition root puts together. */
export interface CommandAdapters {
  /** Serves until it is closed. @throws AppError `registry/listen` */
  serveBundle(request: ServeRequest): Promise<ServedBundle>;
}
