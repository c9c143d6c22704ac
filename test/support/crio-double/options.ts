import { parseArgs } from 'node:util';

/**
 * Where the double finds and keeps its things. Every path means the same to this process and to
 * skopeo.
 */
export interface DoubleOptions {
  /**
   * `serve` is the daemon; `wipe` is what `crio-wipe.service` runs before it
   * (docs/runtime-facts.md, fact 11).
   */
  readonly command: 'serve' | 'wipe';
  /** `crio.conf`; it may be missing. */
  readonly configFile: string;
  /** The drop-in directory, read after it. */
  readonly configDirectory: string;
  /** Unix socket of the CRI and of `GET /config`. */
  readonly listen: string;
  /** Storage root, its run-time counterpart and its driver, `overlay` or `vfs`. */
  readonly root: string;
  readonly runRoot: string;
  readonly storageDriver: string;
  /** Main registries configuration and its drop-in directory. */
  readonly registriesFile: string;
  readonly registriesDirectory: string;
  /** Directory with sigstore and look-aside configuration. */
  readonly registriesD: string;
  /** `policy.json`; a configuration file may name another. */
  readonly signaturePolicy: string;
  /** Where layers are staged before they are stored (docs/runtime-facts.md, fact 18). */
  readonly bigFilesDirectory: string;
  /** The double's own files: the inner socket, snapshots of the registries configuration. */
  readonly stateDirectory: string;
  /** File whose presence says that the last shutdown was clean; undefined turns the wipe off. */
  readonly cleanShutdownFile?: string;
  /** On a tmpfs: its absence says that the node was booted since. */
  readonly versionFile: string;
  /** How to start skopeo; arguments follow. */
  readonly skopeo: readonly [string, ...string[]];
  readonly protoFile: string;
  /** JSON `{containers, sandboxes}` with CRI messages, read at each call; undefined means none. */
  readonly containersFile?: string;
  /** From SIGHUP to the moment when the configuration is read again. */
  readonly reloadDelayMs: number;
  /**
   * While a pull runs, each so-many-th `ImageFsInfo` fails for a file that an image's commit took
   * away; 0 means none.
   */
  readonly lostFileEvery: number;
  /** What `Version` answers. */
  readonly version: string;
}

const flags = {
  config: { type: 'string', default: '/etc/crio/crio.conf' },
  'config-dir': { type: 'string', default: '/etc/crio/crio.conf.d' },
  listen: { type: 'string', default: '/run/crio/crio.sock' },
  root: { type: 'string', default: '/var/lib/containers/storage' },
  runroot: { type: 'string', default: '/run/containers/storage' },
  'storage-driver': { type: 'string', default: 'overlay' },
  'registries-conf': { type: 'string', default: '/etc/containers/registries.conf' },
  'registries-conf-dir': { type: 'string', default: '/etc/containers/registries.conf.d' },
  'registries-d': { type: 'string', default: '/etc/containers/registries.d' },
  'signature-policy': { type: 'string', default: '/etc/containers/policy.json' },
  'big-files-temporary-dir': { type: 'string', default: '/var/tmp' },
  'state-dir': { type: 'string', default: '/run/crio-double' },
  'clean-shutdown-file': { type: 'string' },
  'version-file': { type: 'string', default: '/run/crio/version' },
  skopeo: { type: 'string', multiple: true },
  proto: { type: 'string' },
  containers: { type: 'string' },
  'reload-delay-ms': { type: 'string', default: '150' },
  'lost-file-every': { type: 'string', default: '2' },
  version: { type: 'string', default: '1.36.3' },
} as const;

/**
 * Reads the command line. `--skopeo` is given once for each word of the command. The CRI's proto
 * file comes from `--proto`, else from the environment's `CRIO_DOUBLE_PROTO`.
 *
 * @throws Error that names the unknown flag, the bad value or the missing proto file.
 */
export function parseOptions(args: readonly string[], environment: NodeJS.ProcessEnv): DoubleOptions {
  const { values, positionals } = parseArgs({ args: [...args], options: flags, allowPositionals: true, strict: true });
  const command = positionals[0] ?? 'serve';
  if (command !== 'serve' && command !== 'wipe') throw new Error(`unknown command "${command}": use serve or wipe`);
  const protoFile = values.proto ?? environment.CRIO_DOUBLE_PROTO;
  if (protoFile === undefined) throw new Error('name the CRI proto file with --proto or CRIO_DOUBLE_PROTO');
  const reloadDelayMs = Number(values['reload-delay-ms']);
  if (!(reloadDelayMs >= 0)) throw new Error(`--reload-delay-ms takes a number, not "${values['reload-delay-ms']}"`);
  const lostFileEvery = Number(values['lost-file-every']);
  if (!(lostFileEvery >= 0)) throw new Error(`--lost-file-every takes a number, not "${values['lost-file-every']}"`);
  const [program = 'skopeo', ...rest] = values.skopeo ?? [];
  const cleanShutdownFile = values['clean-shutdown-file'];
  return {
    command,
    configFile: values.config,
    configDirectory: values['config-dir'],
    listen: values.listen,
    root: values.root,
    runRoot: values.runroot,
    storageDriver: values['storage-driver'],
    registriesFile: values['registries-conf'],
    registriesDirectory: values['registries-conf-dir'],
    registriesD: values['registries-d'],
    signaturePolicy: values['signature-policy'],
    bigFilesDirectory: values['big-files-temporary-dir'],
    stateDirectory: values['state-dir'],
    ...(cleanShutdownFile !== undefined && { cleanShutdownFile }),
    versionFile: values['version-file'],
    skopeo: [program, ...rest],
    protoFile,
    ...(values.containers !== undefined && { containersFile: values.containers }),
    reloadDelayMs,
    lostFileEvery,
    version: values.version,
  };
}
