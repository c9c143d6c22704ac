import type { Documents } from '../../bundle/documents/worker-documents.ts';
import {
  forgottenBundles,
  isWantedFromPeers,
  refusalGrounds,
  refusedForGood,
  withheldFromPeers,
} from '../../domain/report/peer-wants.ts';
import type { StatusReport } from '../../domain/report/status-schema.ts';
import { hasSources } from '../../domain/settings/settings.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { BoundedOffers } from '../../fleet/daemon/bounded-offers.ts';
import { KeptBundles, NodeOffers } from '../../fleet/daemon/offered-bundles.ts';
import { FleetWatch, PeerMedia } from '../../fleet/daemon/peer-media.ts';
import { OffersClient } from '../../fleet/wire/client.ts';
import { unixSocket, WireConnection } from '../../fleet/wire/connection.ts';
import { fleetPaths, wirePaths } from '../../fleet/wire/documents.ts';
import { PeerBudgets } from '../../fleet/wire/peer-budgets.ts';
import { createOffersHandler, type OffersHandler, type SocketServer, serveSocket } from '../../fleet/wire/server.ts';
import type { HeldBundle } from '../../media/held-bundles.ts';
import type { Media } from '../../media/media.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { BlobSource, ChangingBlobSource } from '../../ports/blobs.ts';
import type { FleetPort } from '../../ports/fleet.ts';
import type { SignedFiles } from '../../store/files/signed-files.ts';
import type { DaemonOptions } from './run-daemon.ts';
import type { TrustKeeper } from './trust/trust-keeper.ts';

/** What the daemon has to do with other nodes, and with bundles in registries. */
export interface DaemonFleet {
  /** Only with `fleet.enabled`. */
  readonly port: FleetPort | undefined;
  readonly providers: readonly PeerMedia[];
  /** Serves `offers.sock` from now on. Never throws: what fails is logged, and tried again. */
  serve(parts: ServedParts): Promise<void>;
  /** Takes a report of the engine: it says what is needed of others, and what may be given. */
  reported(report: StatusReport, judged: JudgedBy): void;
  close(): Promise<void>;
}

/** This node judges bundles by those that are adopted and by its keys. */
interface JudgedBy {
  readonly bundles: readonly StoredBundle[];
  readonly trustRevision: string;
}

export interface ServedParts {
  readonly media: Pick<Media, 'held'>;
  readonly signed: SignedFiles;
  readonly documents: BlobSource;
  readonly layers: ChangingBlobSource;
  /** Blobs that the runtime has. */
  readonly content: BlobSource | undefined;
  readonly trust: Pick<TrustKeeper, 'trust' | 'revision'>;
  readonly parsers: Documents;
}

const OPEN_AGAIN_MS = 5_000;

interface FleetState {
  readonly options: Pick<DaemonOptions, 'settings' | 'clock' | 'log'>;
  report: StatusReport | undefined;
  /** Refused for good, as long as `grounds` stay the same. */
  readonly refused: Set<string>;
  grounds: string;
  forgotten: ReadonlySet<string>;
  withheld: ReadonlySet<string>;
  kept: KeptBundles | undefined;
  server: SocketServer | undefined;
  /** Ends when `offers.sock` is open, or with `stop`. */
  opening: Promise<void>;
  readonly stop: AbortController;
  /** Changes with what the last report says of bundles. */
  seen: string;
  /** How many images and artifacts of all releases were present then. */
  present: number;
}

/** The processes beside the daemon are followed until `close`. */
export function createDaemonFleet(
  options: Pick<DaemonOptions, 'settings' | 'clock' | 'log'>,
  { documents }: Pick<ServedParts, 'documents'>,
): DaemonFleet {
  const { settings } = options;
  const state: FleetState = {
    options,
    report: undefined,
    refused: new Set(),
    grounds: '',
    forgotten: new Set(),
    withheld: new Set(),
    kept: undefined,
    server: undefined,
    opening: Promise.resolve(),
    stop: new AbortController(),
    seen: '',
    present: 0,
  };
  const { peersSocket, sourcesSocket } = fleetPaths(settings.paths);
  const nodes = settings.fleet.enabled ? followed(peersSocket, state, documents) : undefined;
  const sources = hasSources(settings) ? followed(sourcesSocket, state, documents, SOURCES) : undefined;
  const all = [nodes, sources].flatMap((one) => one ?? []);
  return {
    port: nodes?.port,
    providers: all.map(({ provider }) => provider),
    serve: async (parts) => {
      if (settings.fleet.enabled) await serve(state, parts);
    },
    reported: (report, judged) => {
      const grounds = state.grounds;
      const isNews = takeReport(state, report, judged);
      for (const { provider } of all) {
        provider.reported(report);
        if (state.grounds !== grounds) provider.judgedAnew();
        if (isNews) provider.reconsider();
      }
    },
    close: async () => {
      state.stop.abort();
      for (const { connection } of all) connection.close();
      await Promise.all([...all.map(({ following }) => following), state.opening]);
      await state.server?.close();
    },
  };
}

const SOURCES = { process: 'process of the sources', what: 'registries', unit: 'stickpin-sources' };

/** A process that says what is offered elsewhere: each place with a bundle is a medium. */
function followed(socket: string, state: FleetState, ownBlobs: BlobSource, of?: typeof SOURCES) {
  const { clock, log } = state.options;
  const connection = new WireConnection({ who: `the ${of?.process ?? 'fleet process'}`, connect: unixSocket(socket) });
  const port = new FleetWatch(new OffersClient(connection), clock, log, of);
  const provider = new PeerMedia({
    fleet: port,
    clientOf: (peer) => new OffersClient(connection, wirePaths.peer(peer), peer),
    ...(of === undefined
      ? { bounds: new BoundedOffers(new PeerBudgets(clock)) }
      : { look: (signal) => port.look(signal) }),
    isWanted: (offered) =>
      state.report !== undefined &&
      !state.refused.has(offered.bundleId) &&
      isWantedFromPeers(offered, state.report, state.forgotten),
    ownBlobs,
    clock,
    random: Math.random,
  });
  return { connection, port, provider, following: port.run(state.stop.signal) };
}

async function serve(state: FleetState, parts: ServedParts): Promise<void> {
  const { settings, clock, log } = state.options;
  const { fleet, paths } = settings;
  const { media, trust, content, ...own } = parts;
  const kept = new KeptBundles({
    ...own,
    content,
    trust: () => ({ trust: trust.trust(), revision: trust.revision() }),
    log,
  });
  state.kept = kept;
  const isOffered = ({ bundleId, name }: HeldBundle) =>
    fleet.serve && state.report !== undefined && !fleet.except.includes(name) && !state.withheld.has(bundleId);
  const bundles = new NodeOffers([kept, media.held], isOffered);
  const { offersSocket } = fleetPaths(paths);
  const handle = createOffersHandler(bundles, clock, log);
  try {
    state.server = await serveSocket(offersSocket, handle);
  } catch (error) {
    log.error({ err: error }, `${reasonOf(error)}. It is tried again`);
    state.opening = openAgain(state, offersSocket, handle);
  }
}

/** Tries until the socket can be opened. */
async function openAgain(state: FleetState, path: string, handle: OffersHandler): Promise<void> {
  const { options, stop } = state;
  while (state.server === undefined) {
    try {
      await options.clock.sleep(OPEN_AGAIN_MS, stop.signal);
      state.server = await serveSocket(path, handle);
      options.log.info({}, `${path} is served now: other nodes get bundles from this one`);
    } catch {
      // Said before.
      if (stop.signal.aborted) return;
    }
  }
}

function presentIn({ images, artifacts }: StatusReport['bundles'][number]): number {
  return images.present + (artifacts?.present ?? 0);
}

/** Most reports differ in their progress only. @returns whether this one does in more */
function takeReport(state: FleetState, report: StatusReport, judged: JudgedBy): boolean {
  const { bundles, rejected, notices, rejectedNames } = report;
  const seen = JSON.stringify([
    bundles.map((bundle) => [bundle.bundleId, bundle.phase, bundle.hold, bundle.cancelled, presentIn(bundle)]),
    rejected.map(({ bundleId, reason }) => [bundleId, reason.code]),
    notices.map(({ bundleId }) => bundleId),
    rejectedNames,
  ]);
  state.report = report;
  const grounds = refusalGrounds(judged.bundles, judged.trustRevision);
  const isJudgedAnew = grounds !== state.grounds;
  if (seen === state.seen && !isJudgedAnew) return false;
  state.seen = seen;
  state.grounds = grounds;
  state.forgotten = forgottenBundles(judged.bundles);
  state.withheld = withheldFromPeers(report);
  // What this report refuses may have been judged before the change.
  if (isJudgedAnew) state.refused.clear();
  else for (const bundleId of refusedForGood(report)) state.refused.add(bundleId);
  const present = report.bundles.reduce((sum, bundle) => sum + presentIn(bundle), 0);
  state.kept?.changed(present < state.present);
  state.present = present;
  return true;
}
