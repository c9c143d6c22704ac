/** Entry of the fleet process: `stickpin-fleet.service` runs it. */
import { unsupportedNode } from './platform/version.ts';

const complaint = unsupportedNode(process.versions.node);
if (complaint === undefined) {
  // Loaded only now: on an older Node.js the native modules crash the process while they are
  // loaded.
  const { runFleetService } = await import('./app/fleet/service.ts');
  process.exitCode = await runFleetService(process.argv.slice(2));
} else {
  process.stderr.write(`stickpin-fleet: ${complaint}\n`);
  process.exitCode = 1;
}
