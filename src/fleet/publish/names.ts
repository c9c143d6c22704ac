/** The annotation in which a node tells about its releases (`NodeStatus` as JSON). */
export const STATUS_ANNOTATION = 'stickpin.io/status';

/** The annotation in which a node tells what it gives to others, and where. */
export const SERVES_ANNOTATION = 'stickpin.io/serves';
