import type { Command } from 'commander';
import type { CommandContext } from '../../context/command-context.ts';
import { fleetDocument } from '../../output/fleet-document.ts';
import { jsonText } from '../../output/json.ts';
import { renderFleet } from '../../output/render/render-fleet.ts';

/** Adds `fleet status` to the program. */
export function registerFleetStatus(fleet: Command, context: CommandContext): void {
  fleet
    .command('status')
    .description('show the releases of all nodes of the cluster')
    .option('--json', 'print as JSON')
    .action(async (options: { readonly json?: true }) => {
      const { watchFleet } = await context.adapters();
      for await (const view of watchFleet(context.signal)) {
        context.stdout(options.json ? jsonText(fleetDocument(view)) : renderFleet(view, context.now(), context));
        return;
      }
    });
}
