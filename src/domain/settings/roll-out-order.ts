import * as v from 'valibot';
import {
  BY_NAME,
  CONTROL_PLANE_PLACES,
  isLabelSelector,
  isMaxUnavailable,
  type MaxUnavailable,
  MOST_GROUPS,
  ON_ROLLBACK,
  ORDER_GOALS,
  type RollOutOrder,
} from '../model/roll-out-order.ts';
import { duration, type ValueType } from './value-types.ts';

const SELECTOR_FAULT = 'must be a label selector, as "topology.kubernetes.io/zone=a,!spare"';
const MAX_UNAVAILABLE_FAULT = 'must be a whole number from 1 on, or a share from "1%" to "100%"';
const selector = v.pipe(v.string(SELECTOR_FAULT), v.check(isLabelSelector, SELECTOR_FAULT));
const nodeCount = v.pipe(v.number(), v.safeInteger(), v.minValue(1));

/** The order in which the nodes of a cluster activate a release. */
export const rollOutOrder: ValueType<RollOutOrder> = {
  name: 'table',
  range:
    '`control_plane` (`"last"`, `"first"`, `"with"`), `groups` (label selectors), `canary` (a number of nodes or a label selector), `soak` (duration), `max_unavailable` (a number or `"25%"`), `on_rollback` (`"pause"`, `"go-on"`), `settle` (duration), `done` (`"activated"`, `"proven"`), `pause_after_failures` (a number)',
  schema: v.pipe(
    v.strictObject({
      control_plane: v.optional(
        v.picklist(CONTROL_PLANE_PLACES, 'must be "last", "first" or "with"'),
        BY_NAME.controlPlane,
      ),
      groups: v.optional(
        v.pipe(v.array(selector), v.maxLength(MOST_GROUPS, `must have at most ${MOST_GROUPS} groups`)),
        [],
      ),
      canary: v.optional(v.union([nodeCount, selector], 'must be a number of nodes from 1 on, or a label selector')),
      soak: v.optional(duration.schema, '1 h'),
      max_unavailable: v.optional(v.custom<MaxUnavailable>(isMaxUnavailable, MAX_UNAVAILABLE_FAULT)),
      on_rollback: v.optional(v.picklist(ON_ROLLBACK, 'must be "pause" or "go-on"')),
      settle: v.optional(duration.schema),
      done: v.optional(v.picklist(ORDER_GOALS, 'must be "activated" or "proven"')),
      pause_after_failures: v.optional(nodeCount),
    }),
    v.transform(
      ({ control_plane, groups, canary, soak, max_unavailable, on_rollback, settle, done, ...more }): RollOutOrder => ({
        controlPlane: control_plane,
        groups,
        canary: canary === undefined ? undefined : { nodes: canary, soakMs: soak },
        maxUnavailable: max_unavailable === undefined ? [] : [max_unavailable],
        onRollback: on_rollback,
        settleMs: settle,
        done,
        pauseAfterFailures: more.pause_after_failures,
      }),
    ),
  ),
};
