/** Stops a subscription. */
export type Unsubscribe = () => void;
