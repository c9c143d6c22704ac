import type { FleetView } from '../domain/fleet/node-status.ts';
import type { HiddenMirrors } from '../domain/model/image.ts';
import type { KubeletFacts, NodeFacts } from '../domain/model/machine.ts';
import type { Fault, Finding } from '../domain/model/reason.ts';
import type { TrustReport } from '../domain/report/status-schema.ts';
import type { Settings } from '../domain/settings/settings.ts';
import type { RevocationRecord } from '../domain/trust/revocation-record.ts';

/** Undefined and false mean that there is nothing to report. */
export type Found = Finding | readonly Found[] | undefined | false;

/** One check of the node. It only reads. An error becomes a fault. */
export interface Check {
  readonly subject: string;
  /** What to do when the check itself fails. */
  readonly remedy: string;
  run(signal: AbortSignal): Promise<Found>;
}

/** The node as the checks see it. */
export interface ExaminedNode {
  readonly settings: Settings;
  /** The user who may own the folder of keys besides root. */
  readonly ownUid: number;
  /** The keys of the daemon. It is undefined when the daemon does not answer. */
  readonly trust: TrustReport | undefined;
  /** It is undefined when the system bus does not answer. */
  readonly services: SystemServices | undefined;
  /** Finds the container runtime of this node; close it after use. It is undefined if absent. */
  findRuntime(signal: AbortSignal): Promise<ExaminedRuntime | undefined>;
  /**
   * The time that the clock shows, and when this program was built; milliseconds since the epoch.
   */
  readonly clock: { readonly now: number; readonly builtAt: number };
  readonly facts: Pick<NodeFacts, 'hasKubelet'>;
  /** How the kubelet of this node treats images. */
  kubelet(signal: AbortSignal): Promise<ExaminedKubelet>;
  /** The database of the state. @throws errors of the filesystem */
  database(signal: AbortSignal): Promise<ExaminedDatabase>;
  /** Reads which keys are recorded as revoked. @throws AppError when the record is damaged */
  revocations(signal: AbortSignal): Promise<RevocationRecord>;
  readonly fleet: ExaminedFleet;
  /** Reads what registries offer. @throws AppError why it is not known */
  sources(signal: AbortSignal): Promise<FleetView>;
  /** It is undefined on a node without CRI-O. */
  readonly crio: ExaminedCrio | undefined;
}

/** systemd over the system bus. */
export interface SystemServices {
  /**
   * A property of a unit. Returns undefined when there is no such unit. `iface`: the last part of
   * the interface, for example `Unit` or `Socket`.
   */
  unitProperty(unit: string, iface: string, name: string, signal: AbortSignal): Promise<unknown>;
  /** Whether the clock is synchronised. Returns undefined when that is not known. */
  isClockSynchronized(signal: AbortSignal): Promise<boolean | undefined>;
}

/** A container runtime (CRI). Each call throws an AppError when the runtime does not answer. */
export interface ExaminedRuntime {
  /** Name for display: `k3s`. */
  readonly title: string;
  readonly socketPath: string;
  /** Whether a usual clean-up (`docker system prune`) removes pins. It reads no mirror, either. */
  readonly losesPins: boolean;
  /** Resolves when the runtime is alive. */
  status(signal: AbortSignal): Promise<void>;
  /** Name and version of the runtime: `cri-o 1.36.3`. */
  version(signal: AbortSignal): Promise<string>;
  /** Whether it reads mirrors, as far as its configuration says. The others do, or need none. */
  mirrors(signal: AbortSignal): Promise<MirrorReading>;
  /** The filesystem of the images. Returns undefined when the runtime does not report it. */
  imageFilesystem(signal: AbortSignal): Promise<FilesystemSpace | undefined>;
  close(): void;
}

/** Whether a runtime reads the mirrors that are written for it. */
export type MirrorReading =
  | {
      readonly kind: 'read';
      /** The folders of containerd's mirrors. Absent for others. */
      readonly folders?: readonly string[];
    }
  /** The configuration of containerd sets no `config_path`. */
  | { readonly kind: 'unset' };

/** The content of the kubelet's files, and the repositories of the images that stickpin pins. */
export interface ExaminedKubelet extends KubeletFacts {
  readonly repositories: readonly string[];
}

export type ExaminedDatabase =
  | { readonly kind: 'absent' | 'private'; readonly path: string }
  | { readonly kind: 'whole'; readonly path: string; readonly sizeBytes: number }
  | { readonly kind: 'damaged'; readonly path: string; readonly reason: string };

export interface FilesystemSpace {
  readonly path: string;
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** CRI-O's files, and the files that protect the link to our pins from dangling. */
export interface ExaminedCrio {
  readonly paths: CrioFilePaths;
  /**
   * tmpfiles.d fragments that make the file and the link at boot. The first existing one counts.
   */
  readonly tmpfiles: readonly string[];
  /** Drop-in of crio.service that restores the pins before each start. */
  readonly guard: string;
  /** The registries.conf of root. CRI-O, which runs as root, reads it in place of all in `/etc`. */
  readonly rootsRegistriesFile: string;
  /** Our pins in CRI-O's configuration, and foreign files that override them. */
  inspectPins(
    signal: AbortSignal,
  ): Promise<{ readonly rendered: readonly string[]; readonly fault: Fault | undefined }>;
  /** Our mirrors that foreign files hide. */
  hiddenMirrors(signal: AbortSignal): Promise<HiddenMirrors | undefined>;
}

/** The fleet process, and what it proves itself with. */
export interface ExaminedFleet {
  /** Reads what it knows of the cluster. @throws AppError why it does not answer */
  view(signal: AbortSignal): Promise<FleetView>;
  /**
   * The name of the Node in the kubelet's client certificate, or of the own key, and the end of its
   * validity; all times in milliseconds since the epoch. @throws AppError why it can't be used
   */
  identity(signal: AbortSignal): Promise<{ readonly node: string; readonly validUntil: number; readonly now: number }>;
}

/** Absolute paths of CRI-O's files. */
export interface CrioFilePaths {
  /** Our link in CRI-O's drop-in folder. */
  readonly pinsLink: string;
  /** The target of the link. */
  readonly pinsFile: string;
  /** The copy that survives a reboot. */
  readonly persistentPinsFile: string;
  readonly mirrorsLink: string;
  readonly mirrorsFile: string;
}

export const INSTALL_AGAIN = "install stickpin's package again, or run the archive's install.sh again";

/** The remedy when systemd does not answer a check. */
export const SYSTEMD_IS_SILENT =
  "look at systemd with 'systemctl status dbus' and 'systemctl list-jobs', then run 'stickpin doctor' again";
