import type { Finding } from '../domain/model/finding.ts';
import type { Fault } from '../domain/model/reason.ts';
import type { Settings } from '../domain/settings/settings.ts';
import type { TrustReport } from '../domain/trust/trust-in-force.ts';

/** One look at the node. It only reads. What it throws becomes a fault that says so. */
export interface Check {
  readonly subject: string;
  /** What to do when the look itself fails. */
  readonly remedy: string;
  look(signal: AbortSignal): Promise<readonly Finding[]>;
}

/** The node as the checks see it. Each check takes the parts that it needs. */
export interface ExaminedNode {
  readonly settings: Settings;
  /** The user who, beside root, may own the folder of keys. */
  readonly ownUid: number;
  /** What the daemon says about its keys; undefined when it does not answer. */
  readonly trust: TrustReport | undefined;
  /** Undefined when the system bus does not answer. */
  readonly services: SystemServices | undefined;
  /** The container runtime of this node, to be closed after use; undefined when there is none. */
  findRuntime(signal: AbortSignal): Promise<ExaminedRuntime | undefined>;
  /** Undefined on a node without CRI-O. */
  readonly crio: ExaminedCrio | undefined;
}

/** What systemd says over the system bus. */
export interface SystemServices {
  /**
   * A property of a unit; undefined when there is no such unit. `iface`: the last part of the
   * interface, as `Unit` or `Socket`.
   */
  unitProperty(unit: string, iface: string, name: string, signal: AbortSignal): Promise<unknown>;
  /** Whether the clock is synchronised; undefined when nobody knows. */
  isClockSynchronized(signal: AbortSignal): Promise<boolean | undefined>;
}

/** A container runtime (CRI). Each call throws an AppError when the runtime does not answer. */
export interface ExaminedRuntime {
  /** For people: `k3s`. */
  readonly title: string;
  readonly socketPath: string;
  /** Resolves when the runtime is alive. */
  status(signal: AbortSignal): Promise<void>;
  /** As the runtime names itself: `cri-o 1.36.3`. */
  version(signal: AbortSignal): Promise<string>;
  /** False only for a containerd that says that it reads no mirrors. */
  readsMirrors(signal: AbortSignal): Promise<boolean>;
  /** The filesystem of the images; undefined when the runtime does not say. */
  imageFilesystem(signal: AbortSignal): Promise<FilesystemSpace | undefined>;
  close(): void;
}

/** A filesystem and its space. */
export interface FilesystemSpace {
  readonly path: string;
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** CRI-O's files, and what keeps the link to our pins from ever leading nowhere. */
export interface ExaminedCrio {
  readonly paths: CrioFilePaths;
  /** tmpfiles.d fragments that make the file and the link at boot; the first that exists counts. */
  readonly tmpfiles: readonly string[];
  /** Drop-in of crio.service that restores the pins before each start. */
  readonly guard: string;
  /** The pins that CRI-O gets from us, and what in the files of others takes them away. */
  inspectPins(
    signal: AbortSignal,
  ): Promise<{ readonly rendered: readonly string[]; readonly fault: Fault | undefined }>;
}

/** Absolute paths of CRI-O's files. */
export interface CrioFilePaths {
  /** Our link in CRI-O's drop-in folder. */
  readonly pinsLink: string;
  /** What the link leads to. */
  readonly pinsFile: string;
  /** The copy that outlasts a reboot. */
  readonly persistentPinsFile: string;
  readonly mirrorsLink: string;
  readonly mirrorsFile: string;
}

/** What to do when systemd does not answer a check. */
export const SYSTEMD_IS_SILENT =
  "look at systemd with 'systemctl status dbus' and 'systemctl list-jobs', then run 'stickpin doctor' again";
