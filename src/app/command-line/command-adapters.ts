import type { CommandAdapters } from '../../cli/context/command-adapters.ts';
import { examineNode } from '../doctor/examine-node.ts';
import { rehearseBundle } from '../rehearsal/rehearse-bundle.ts';
import { serveBundle } from './serve-bundle.ts';

/** The adapters of the command line. */
export const commandAdapters: CommandAdapters = { serveBundle, rehearseBundle, examineNode };
