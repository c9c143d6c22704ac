import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { renderConfiguration } from './configuration.ts';
import { createContainers } from './cri/containers.ts';
import { startCriServer } from './cri/cri-server.ts';
import { createRuntimeService } from './cri/runtime-service.ts';
import { startCrioState } from './crio-state.ts';
import { createImageService } from './images/image-service.ts';
import { createSnapshotTaker } from './images/registries-snapshot.ts';
import { createSkopeo } from './images/skopeo.ts';
import { skopeoAsCrio } from './images/skopeo-program.ts';
import { createLog, type Log } from './log.ts';
import { type DoubleOptions, parseOptions } from './options.ts';
import { markStarted, markStopped, wipeIfUnclean } from './shutdown-marks.ts';

/*
 * The CRI-O double: a program that stands where CRI-O stands, for machines that have none. What it
 * takes from CRI-O are the shell (the CRI on a Unix socket, GET /config), the configuration's rules
 * and the pins; pulling and storing is done by the real skopeo, which is built on the same
 * libraries.
 */

async function serve(options: DoubleOptions, log: Log): Promise<void> {
  mkdirSync(options.stateDirectory, { recursive: true });
  const skopeo = createSkopeo({ ...options, skopeo: await skopeoAsCrio(options) });
  const snapshots = createSnapshotTaker({ options, skopeo });
  const panic = (error: Error) => {
    log.error(error.message);
    process.exit(2);
  };
  const state = await startCrioState({ options, snapshots, log, panic });
  const containers = createContainers(options.containersFile);
  const server = await startCriServer({
    protoFile: options.protoFile,
    listen: options.listen,
    stateDirectory: options.stateDirectory,
    imageService: createImageService({ options, state, skopeo, containers, log }),
    runtimeService: createRuntimeService({ options, state, containers }),
    pages: {
      '/config': {
        contentType: 'application/toml',
        text: () => renderConfiguration(state.configuration, options),
      },
      '/info': {
        contentType: 'application/json',
        text: () =>
          JSON.stringify({ storage_driver: options.storageDriver, storage_image: '', storage_root: options.root }),
      },
    },
  });
  process.on('SIGHUP', () => state.requestReload());
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      log.info(`Received ${signal}, shutting down`);
      server.close().then(() => {
        markStopped(options);
        process.exit(0);
      }, panic);
    });
  }
  markStarted(options);
  log.info(`Listening on ${options.listen}`);
  tellSystemd();
}

/**
 * Node has no Unix datagram sockets (docs/runtime-facts.md, fact 27), so `systemd-notify` says that
 * the service is ready.
 */
function tellSystemd(): void {
  if (process.env.NOTIFY_SOCKET !== undefined) spawn('systemd-notify', ['--ready'], { stdio: 'ignore' });
}

async function run(args: readonly string[]): Promise<void> {
  const log = createLog();
  try {
    const options = parseOptions(args, process.env);
    if (options.command === 'wipe') wipeIfUnclean(options, log);
    else await serve(options, log);
  } catch (error) {
    log.error((error as Error).message);
    process.exit(1);
  }
}

void run(process.argv.slice(2));
